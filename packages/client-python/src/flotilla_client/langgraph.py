"""LangGraph's BaseStore over a collection of the platform: long-term memory that all agents of a fleet share.

store = FlotillaStore(collection="memories")
store.put(("users", "mia"), "food", {"likes": "pizza"})
print(store.search(("users",), query="What does she eat?")[0].value)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchOp,
        TTLConfig,
        ensure_embeddings,
        get_text_at_path,
        tokenize_path,
    )

    from ._langgraph_filter import check_value
    from ._langgraph_items import Items, Put
except ImportError as error:
    raise ImportError(
        "flotilla_client.langgraph needs LangGraph: pip install 'flotilla-client[langgraph]'", name=error.name
    ) from error

from ._adapters import VECTOR_SIZE, Caller, Client, padded

Vectors = dict[str, list[float]]


class FlotillaStore(BaseStore):
    """Items as points. ``search`` by a query finds what means the same; without one the newest item is first.

    Filters take `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte`, exactly and on the platform. Values are JSON objects.
    In a batch reads see the state before its writes. Every call raises FlotillaError, and ValueError for what cannot
    be sent. Methods that block need a Flotilla; the asynchronous ones take either client, and use threads for a
    Flotilla.
    """

    supports_ttl = True

    def __init__(
        self,
        *,
        collection: str,
        client: Client | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        create_collection: bool = True,
    ) -> None:
        """Sends nothing yet; the first call makes the collection where it is missing.

        Args:
            collection: `[a-z0-9][a-z0-9_-]{0,63}`.
            client: A Flotilla or an AsyncFlotilla, which stays the caller's to close; by default a Flotilla of the
                environment.
            index: As LangGraph's: `embed` (by default the platform embeds) and `fields` (by default `["$"]`, the whole
                value). The texts of several fields are one text.
            ttl: As LangGraph's, in minutes: `default_ttl`, `refresh_on_read`. The platform deletes expired items.
            create_collection: With False a missing collection is NotFound `collection_not_found`.

        """
        self._caller = Caller(client, collection, create_collection)
        self._items = Items(self._caller)
        given: dict[str, Any] = dict(index or {})
        if (given.get("dims") or 0) > VECTOR_SIZE:
            raise ValueError(f"index has dims {given['dims']}, and the platform takes {VECTOR_SIZE} at most")
        self._embedding = ensure_embeddings(given["embed"]) if given.get("embed") is not None else None
        self._fields = _paths(given.get("fields") or ["$"])
        self.ttl_config = ttl
        self.collection = collection

    @property
    def client(self) -> Client:
        """The client that it calls."""
        return self._caller.client

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The result of each operation, in their order."""
        listed, texts = self._prepared(ops)
        vectors: Vectors = {}
        if self._embedding is not None and texts:
            vectors = _vectors(texts, self._embedding.embed_documents(texts))
        questions: Vectors = {}
        if self._embedding is not None:
            questions = {query: padded(self._embedding.embed_query(query)) for query in _queries(listed)}
        return self._caller.call(self._run(listed, vectors, questions))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As ``batch``."""
        listed, texts = self._prepared(ops)
        vectors: Vectors = {}
        if self._embedding is not None and texts:
            vectors = _vectors(texts, await self._embedding.aembed_documents(texts))
        questions: Vectors = {}
        if self._embedding is not None:
            questions = {query: padded(await self._embedding.aembed_query(query)) for query in _queries(listed)}
        return await self._caller.acall(self._run(listed, vectors, questions))

    def _prepared(self, ops: Iterable[Op]) -> tuple[list[Op], list[str]]:
        """The operations, and the texts that a model of one's own embeds."""
        listed = list(ops)
        for op in listed:
            if isinstance(op, PutOp) and op.value is not None:
                check_value(op.value)
        texts = (self._text(op) for op in listed if isinstance(op, PutOp))
        return listed, list(dict.fromkeys(text for text in texts if text is not None))

    async def _run(self, ops: Sequence[Op], vectors: Vectors, questions: Vectors) -> list[Result]:
        results: list[Result] = [None] * len(ops)
        gets = [(at, op) for at, op in enumerate(ops) if isinstance(op, GetOp)]
        found = await self._items.get([op for _, op in gets])
        for (at, _), item in zip(gets, found, strict=True):
            results[at] = item
        puts: list[Put] = []
        for at, op in enumerate(ops):
            if isinstance(op, SearchOp):
                results[at] = await self._items.search(op, questions.get(op.query or ""))
            elif isinstance(op, ListNamespacesOp):
                results[at] = await self._items.namespaces(op)
            elif isinstance(op, PutOp):
                text = self._text(op)
                puts.append(Put(op, text, vectors.get(text) if text is not None else None))
            elif not isinstance(op, GetOp):
                raise TypeError(f"a {type(op).__name__} is no operation of a store")
        await self._items.put(puts)
        return results

    def _text(self, op: PutOp) -> str | None:
        """The text that searches find a value by; None where it is not indexed."""
        if op.value is None or op.index is False:
            return None
        paths = self._fields if op.index is None else _paths(op.index)
        texts = [text for path in paths for text in get_text_at_path(op.value, path)]
        return "\n".join(texts).strip() or None


def _paths(fields: Sequence[str]) -> list[Any]:
    return [field if field == "$" else tokenize_path(field) for field in fields]


def _queries(ops: Iterable[Op]) -> set[str]:
    return {op.query for op in ops if isinstance(op, SearchOp) and op.query}


def _vectors(texts: Sequence[str], made: Sequence[Sequence[float]]) -> Vectors:
    if len(texts) != len(made):
        raise ValueError(f"the embedding made {len(made)} vectors of {len(texts)} texts")
    return {text: padded(vector) for text, vector in zip(texts, made, strict=True)}
