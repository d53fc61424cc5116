"""LlamaIndex: a vector store in a collection of the platform, and the platform's embedder as an embedding model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
    from llama_index.core.schema import BaseNode, MetadataMode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

    from ._llamaindex_filters import conditions_of
except ImportError as error:
    raise ImportError(
        "flotilla_client.llamaindex needs LlamaIndex: pip install 'flotilla-client[llamaindex]'", name=error.name
    ) from error

from ._adapter_points import delete_matching, embedded, nested
from ._adapters import Caller, Client, padded, portions
from .memory_models import Filter, Hit, ScrolledPoint

# A filter takes at most 1,000 values of `any`.
_IDS_PER_FILTER = 500
_HITS_MAX = 1_000
_MODES = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.MMR)


class FlotillaVectorStore(BasePydanticVectorStore):
    """Nodes in a collection of the platform, which is made where it is missing.

    The collection may hold other points: the store neither finds nor deletes those. Calls raise FlotillaError, and
    ValueError for what cannot be sent. With an AsyncFlotilla, blocking methods raise RuntimeError.
    """

    stores_text: bool = True
    flat_metadata: bool = False
    collection: str
    _caller: Caller = PrivateAttr()

    def __init__(self, client: Client | None = None, collection: str = "llamaindex", **fields: Any) -> None:
        """Without a client, a Flotilla with the settings of the environment."""
        super().__init__(collection=collection, **fields)  # type: ignore[call-arg]
        self._caller = Caller(client, collection)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex stores settings of this class."""
        return "FlotillaVectorStore"

    @property
    def client(self) -> Client:
        """The client of the platform."""
        return self._caller.client

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Stores nodes, which have embeddings of at most 1,536 numbers, and returns their ids."""
        return self._caller.call(self._add(nodes))

    async def async_add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Does what ``add`` does."""
        return await self._caller.acall(self._add(nodes))

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        """Deletes every node of a document."""
        self._caller.call(self._delete(_of_documents([ref_doc_id])))

    async def adelete(self, ref_doc_id: str, **_: Any) -> None:
        """As ``delete``."""
        await self._caller.acall(self._delete(_of_documents([ref_doc_id])))

    def delete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any) -> None:
        """Deletes the nodes that have one of the ids and match the filters. Raises ValueError without either."""
        self._caller.call(self._delete_nodes(node_ids, filters))

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any
    ) -> None:
        """As ``delete_nodes``."""
        await self._caller.acall(self._delete_nodes(node_ids, filters))

    def clear(self) -> None:
        """Deletes every node of the store; the collection and its other points stay."""
        self._caller.call(self._delete(None))

    async def aclear(self) -> None:
        """As ``clear``."""
        await self._caller.acall(self._delete(None))

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes that have one of the ids and match the filters, without embeddings, in the order of their ids."""
        return self._caller.call(self._get_nodes(node_ids, filters))

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """As ``get_nodes``."""
        return await self._caller.acall(self._get_nodes(node_ids, filters))

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nodes nearest to the query's embedding; similarities are cosines.

        Modes are `default`, `text_search` (of the nodes that have every word of ``query_str`` in their text; without an
        embedding the platform's embedder ranks them) and `mmr`, which chooses among ``mmr_prefetch_k`` hits (four times
        ``similarity_top_k``). Others raise ValueError.
        """
        return self._caller.call(self._query(query, **kwargs))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """As ``query``."""
        return await self._caller.acall(self._query(query, **kwargs))

    async def _add(self, nodes: Sequence[BaseNode]) -> list[str]:
        points = [_point(node) for node in nodes]
        return await (await self._caller.memory()).remember(self.collection, points)

    async def _delete(self, condition: Filter | None) -> None:
        await delete_matching(await self._caller.memory(), self.collection, _own(condition))

    async def _delete_nodes(self, node_ids: list[str] | None, filters: MetadataFilters | None) -> None:
        if node_ids is None and (filters is None or not filters.filters):
            raise ValueError("delete_nodes needs node_ids or filters: clear deletes every node")
        memory = await self._caller.memory()
        for selected in _selections(node_ids, filters):
            await delete_matching(memory, self.collection, selected)

    async def _get_nodes(self, node_ids: list[str] | None, filters: MetadataFilters | None) -> list[BaseNode]:
        memory = await self._caller.memory()
        return [
            _node(point)
            for selected in _selections(node_ids, filters)
            async for point in memory.scroll(self.collection, filter=selected)
        ]

    async def _query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        mode, vector, selected = _asked(query)
        memory = await self._caller.memory()
        if mode is not VectorStoreQueryMode.MMR or vector is None:
            text = query.query_str if vector is None else None
            found = await memory.search(
                self.collection, text=text, vector=vector, limit=query.similarity_top_k, filter=selected
            )
            return _result(found.results, [hit.score for hit in found.results])
        wanted = int(kwargs.get("mmr_prefetch_k") or query.similarity_top_k * kwargs.get("mmr_prefetch_factor", 4))
        limit = min(max(wanted, query.similarity_top_k), _HITS_MAX)
        found = await memory.search(self.collection, vector=vector, limit=limit, filter=selected, with_vector=True)
        hits = {hit.id: hit for hit in found.results}
        scores, chosen = get_top_k_mmr_embeddings(
            vector,
            [hit.vector or [] for hit in hits.values()],
            similarity_top_k=query.similarity_top_k,
            embedding_ids=list(hits),
            mmr_threshold=kwargs.get("mmr_threshold", query.mmr_threshold),
        )
        return _result([hits[node_id] for node_id in chosen], [float(score) for score in scores])


class FlotillaEmbedding(BaseEmbedding):
    """The platform's embedder, of texts of at most 16,384 characters."""

    _caller: Caller = PrivateAttr()

    def __init__(self, client: Client | None = None, **fields: Any) -> None:
        """Without a client, a Flotilla with the settings of the environment."""
        super().__init__(**{"model_name": "flotilla", "embed_batch_size": 100, **fields})
        self._caller = Caller(client, "", create_collection=False)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex stores settings of this class."""
        return "FlotillaEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._caller.call(self._embed(texts))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embeddings([query])[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._caller.acall(self._embed(texts))

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return (await self._aget_text_embeddings([query]))[0]

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        return await embedded(await self._caller.memory(), texts)


def _point(node: BaseNode) -> dict[str, Any]:
    """A node as a point: the node itself as JSON, and next to it the fields that filters name."""
    if node.embedding is None:
        raise ValueError(f"the node {node.node_id!r} has no embedding: add nodes by an index, or set node.embedding")
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    stored = node_to_metadata_dict(node, remove_text=bool(text))
    payload = {
        "adapter": "llamaindex",
        "node_id": node.node_id,
        "ref_doc_id": node.ref_doc_id,
        "text": text or None,
        "metadata": nested(to_jsonable_python(node.metadata)),
        "node": stored["_node_content"],
        "node_type": stored["_node_type"],
    }
    given = {name: value for name, value in payload.items() if value is not None}
    return {"id": node.node_id, "vector": padded(node.embedding), "payload": given}


def _node(point: ScrolledPoint) -> BaseNode:
    payload = point.payload
    stored = {"_node_content": payload["node"], "_node_type": payload["node_type"]}
    return metadata_dict_to_node(stored, text=payload.get("text"))


def _result(hits: Sequence[Hit], similarities: list[float]) -> VectorStoreQueryResult:
    return VectorStoreQueryResult(
        nodes=[_node(hit) for hit in hits], similarities=similarities, ids=[hit.id for hit in hits]
    )


def _asked(query: VectorStoreQuery) -> tuple[VectorStoreQueryMode, list[float] | None, Filter]:
    """The mode, the vector and the filter of a query; retrievers ask a `text_search` without a vector."""
    mode = VectorStoreQueryMode(query.mode)
    if mode not in _MODES:
        known = ", ".join(mode.value for mode in _MODES)
        raise ValueError(f"the platform has no query mode {mode.value!r}: use one of {known}")
    conditions: list[Filter | None] = [None if query.filters is None else conditions_of(query.filters, "metadata.")]
    # Retrievers of an index that stores texts give empty lists, and mean every node.
    if query.node_ids:
        conditions.append({"should": [_of_nodes(part) for part in portions(query.node_ids, _IDS_PER_FILTER)]})
    if query.doc_ids:
        conditions.append({"should": [_of_documents(part) for part in portions(query.doc_ids, _IDS_PER_FILTER)]})
    if mode is VectorStoreQueryMode.TEXT_SEARCH:
        if not query.query_str:
            raise ValueError("a text_search needs the query's query_str")
        conditions.append({"key": "text", "match": {"text": query.query_str}})
    elif query.query_embedding is None:
        raise ValueError("the query has no query_embedding: ask by a retriever of an index, or embed the question")
    return mode, None if query.query_embedding is None else padded(query.query_embedding), _own(*conditions)


def _selections(node_ids: list[str] | None, filters: MetadataFilters | None) -> Iterator[Filter]:
    """The filters that select some nodes, one for each group of ids."""
    condition = None if filters is None else conditions_of(filters, "metadata.")
    if node_ids is None:
        yield _own(condition)
        return
    for part in portions(list(dict.fromkeys(node_ids)), _IDS_PER_FILTER):
        yield _own(condition, _of_nodes(part))


def _own(*conditions: Filter | None) -> Filter:
    """Points of this adapter that meet the conditions."""
    given = [one for one in conditions if one is not None]
    return {"must": [{"key": "adapter", "match": {"value": "llamaindex"}}, *given]}


def _of_nodes(node_ids: Sequence[str]) -> Filter:
    return {"key": "node_id", "match": {"any": list(node_ids)}}


def _of_documents(ref_doc_ids: Sequence[str]) -> Filter:
    return {"key": "ref_doc_id", "match": {"any": list(ref_doc_ids)}}
