"""Documents of LangChain as points of a collection: each operation once, as a coroutine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import numpy
from langchain_core.documents import Document
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from ._adapters import Caller, padded, portions, settled
from ._points import without_audit_notes
from .memory_models import Filter, Hit, ScrolledPoint, StoredPoint

_LIMIT_MAX = 1_000
_DELETED_MAX = 1_000
# Each is answered with its vector, which is about 30 KB of JSON.
_READ_MAX = 100
_CLAUSES = frozenset(("must", "should", "must_not"))

Question = Mapping[str, Any]
"""A `text` or a `vector` to search by."""


class Documents:
    """Reads and writes documents; its coroutines are run by ``caller``."""

    def __init__(self, caller: Caller, metadata_key: str | None) -> None:
        if metadata_key == "text":
            raise ValueError("metadata_key cannot be 'text', which holds the text of the document")
        self.caller = caller
        self._metadata_key = metadata_key

    def points(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any] | None] | None,
        ids: Sequence[str | None] | None,
    ) -> list[dict[str, Any]]:
        """Points with `text`, which ``with_vectors`` moves. Raises ValueError where the lists differ in length."""
        _check_list("texts", texts)
        listed = list(texts)
        for name, given in (("metadatas", metadatas), ("ids", ids)):
            if given is not None and len(given) != len(listed):
                raise ValueError(f"there are {len(listed)} texts and {len(given)} {name}: give one for each text")
        return [
            {
                "id": str(uuid4()) if ids is None or ids[at] is None else ids[at],
                "text": text,
                "payload": self._metadata_payload({} if metadatas is None else metadatas[at] or {}),
            }
            for at, text in enumerate(listed)
        ]

    def _metadata_payload(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        if self._metadata_key is not None:
            return {self._metadata_key: dict(metadata)}
        if "text" in metadata:
            raise ValueError(
                "the metadata key 'text' is taken by the text of the document: rename it, or set metadata_key"
            )
        return dict(metadata)

    async def remember(self, points: Sequence[dict[str, Any]]) -> None:
        """Stores points; returns once searches find them."""
        memory = await self.caller.memory()
        await memory.remember(self.caller.collection, points)

    async def search(
        self,
        question: Question,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        score_threshold: float | None = None,
    ) -> list[tuple[Document, float]]:
        """The nearest documents with their cosines, the nearest first."""
        hits = await self._hits(question, k, filter, score_threshold=score_threshold)
        return [(self._document(hit), hit.score) for hit in hits]

    async def diverse(
        self,
        question: Question,
        k: int,
        fetch_k: int,
        lambda_mult: float,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        score_threshold: float | None = None,
    ) -> list[Document]:
        """``k`` of the ``fetch_k`` nearest documents by maximal marginal relevance."""
        _check_limit("k", k)
        if "vector" not in question:
            memory = await self.caller.memory()
            question = {"vector": (await memory.embeddings(question["text"])).data[0].embedding}
        hits = await self._hits(question, fetch_k, filter, score_threshold=score_threshold, with_vector=True)
        if not hits:
            return []
        vectors = [hit.vector or [] for hit in hits]
        chosen = maximal_marginal_relevance(numpy.array(question["vector"]), vectors, lambda_mult, k)
        return [self._document(hits[at]) for at in chosen]

    async def _hits(self, question: Question, k: int, given: Mapping[str, Any] | None, **options: Any) -> list[Hit]:
        _check_limit("fetch_k" if "with_vector" in options else "k", k)
        memory = await self.caller.memory()
        asked = without_audit_notes(self.caller.collection, self._filter(given))
        answer = await memory.search(self.caller.collection, **question, limit=k, filter=asked, **options)
        return answer.results

    async def get(self, ids: Sequence[str]) -> list[Document]:
        """The documents that exist, in the order of the ids."""
        _check_list("ids", ids)
        memory = await self.caller.memory()
        found: dict[str, StoredPoint] = {}
        for part in portions(list(dict.fromkeys(ids)), _READ_MAX):
            answer = await memory.get_many(self.caller.collection, part)
            found.update((point.id, point) for point in answer.points)
        return [self._document(found[one]) for one in ids if one in found]

    async def delete(self, ids: Sequence[str] | None, given: Mapping[str, Any] | None) -> None:
        """Deletes by ids or by a filter. Raises ValueError unless exactly one of them is given."""
        asked = self._filter(given)
        if (ids is None) == (asked is None):
            raise ValueError(
                "give delete ids or a filter, and not both; client.memory.collections.delete deletes a whole collection"
            )
        _check_list("ids", ids)
        memory = await self.caller.memory()
        for part in portions(ids or (), _DELETED_MAX):
            await settled(memory, await memory.delete(self.caller.collection, part, wait=True))
        while asked is not None:
            deletion = await memory.delete(self.caller.collection, filter=asked, wait=True)
            await settled(memory, deletion)
            if not deletion.more:
                return

    def _document(self, point: ScrolledPoint | StoredPoint) -> Document:
        """Points that others wrote have no metadata of their own: all of their payload but the text is it."""
        rest = {key: value for key, value in point.payload.items() if key != "text"}
        nested = rest.get(self._metadata_key) if self._metadata_key is not None else None
        text = point.payload.get("text")
        return Document(
            id=point.id,
            page_content=text if isinstance(text, str) else "",
            metadata=nested if isinstance(nested, dict) else rest,
        )

    def _filter(self, given: Mapping[str, Any] | None) -> Filter | None:
        """A filter of the platform from one, or from the values that metadata keys equal."""
        if given is None or not given:
            return None
        if not isinstance(given, Mapping):
            raise TypeError(f"filter is a dict, not a {type(given).__name__}")
        if _CLAUSES.issuperset(given) and all(map(_is_clause, given.values())):
            return given
        prefix = "" if self._metadata_key is None else f"{self._metadata_key}."
        return {"must": [_equality(f"{prefix}{key}", value) for key, value in given.items()]}


def with_vectors(points: Sequence[dict[str, Any]], vectors: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    """The points with the vectors of their texts, which the payloads keep."""
    if len(points) != len(vectors):
        raise ValueError(f"the embedding made {len(vectors)} vectors of {len(points)} texts")
    return [
        {"id": point["id"], "vector": padded(vector), "payload": {**point["payload"], "text": point["text"]}}
        for point, vector in zip(points, vectors, strict=True)
    ]


def _is_clause(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(condition, Mapping) for condition in value)


def _equality(key: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {"is_empty": {"key": key}}
    if isinstance(value, (list, tuple)):
        return {"key": key, "match": {"any": list(value)}}
    if isinstance(value, (str, int, float)):
        return {"key": key, "match": {"value": value}}
    raise ValueError(
        f"the filter of {key!r} is a {type(value).__name__}: give a text, a number, a boolean, None or a list of them, "
        f"or a filter of the platform such as {{'must': [{{'key': {key!r}, 'range': {{'gte': 1}}}}]}}"
    )


def _check_list(name: str, given: object) -> None:
    """A text is a sequence as well: each of its letters would count."""
    if isinstance(given, str):
        raise ValueError(f"{name} is a list of texts, not one text: give [{given[:20]!r}]")


def _check_limit(name: str, limit: int) -> None:
    if not 1 <= limit <= _LIMIT_MAX:
        raise ValueError(f"{name} is {limit}, and a search finds 1 to {_LIMIT_MAX:,} documents")
