"""LangChain's VectorStore over a collection of the platform.

store = FlotillaVectorStore(collection="harbour")
store.add_texts(["The ferry leaves at nine"])
print(store.similarity_search("When does the ferry leave?", k=1)[0].page_content)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

    from ._langchain_documents import Documents, Question, with_vectors
except ImportError as error:
    raise ImportError(
        "flotilla_client.langchain needs LangChain: pip install 'flotilla-client[langchain]'", name=error.name
    ) from error

from ._adapters import Caller, Client, padded, portions

_EMBEDDED_MAX = 500


class FlotillaVectorStore(VectorStore):
    """Documents as points: the text is the payload's `text`, the metadata its `metadata`.

    Scores are cosines, higher is nearer. ``filter`` is a dict of metadata keys and the values they equal, or a filter
    of the platform (`must`, `should`, `must_not`), whose keys are those of payloads: `metadata.source`. Every call
    raises FlotillaError, and ValueError for what cannot be sent. Methods that block need a Flotilla; the asynchronous
    ones take either client, and use threads for a Flotilla.
    """

    def __init__(
        self,
        *,
        collection: str,
        client: Client | None = None,
        embedding: Embeddings | None = None,
        metadata_key: str | None = "metadata",
        create_collection: bool = True,
    ) -> None:
        """Sends nothing yet; the first call makes the collection where it is missing.

        Args:
            collection: `[a-z0-9][a-z0-9_-]{0,63}`.
            client: A Flotilla or an AsyncFlotilla, which stays the caller's to close; by default a Flotilla of the
                environment.
            embedding: Makes vectors of at most 1,536 numbers; by default the platform embeds.
            metadata_key: The payload key of the metadata; None puts its keys next to `text`, where the fleet's other
                tools look for `title`, `status` and `tags`.
            create_collection: With False a missing collection is NotFound `collection_not_found`.

        """
        self._caller = Caller(client, collection, create_collection)
        self._documents = Documents(self._caller, metadata_key)
        self._embedding = embedding
        self.collection = collection

    @property
    def client(self) -> Client:
        """The client that it calls."""
        return self._caller.client

    @property
    def embeddings(self) -> Embeddings | None:
        """The given embedding; None where the platform embeds."""
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int = _EMBEDDED_MAX,
        **kwargs: Any,
    ) -> list[str]:
        """Stores texts and returns their ids, once searches find them. An id that exists is replaced.

        ``batch_size`` texts are embedded at a time. Not atomic: after a fault repeat the whole of it, with ids.
        """
        _no_more(kwargs)
        points = self._documents.points(texts, metadatas, ids)
        for part in portions(points, batch_size):
            if self._embedding is not None:
                part = with_vectors(part, self._embedding.embed_documents([point["text"] for point in part]))
            self._caller.call(self._documents.remember(part))
        return [point["id"] for point in points]

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int = _EMBEDDED_MAX,
        **kwargs: Any,
    ) -> list[str]:
        """As ``add_texts``."""
        _no_more(kwargs)
        points = self._documents.points(texts, metadatas, ids)
        for part in portions(points, batch_size):
            if self._embedding is not None:
                vectors = await self._embedding.aembed_documents([point["text"] for point in part])
                part = with_vectors(part, vectors)
            await self._caller.acall(self._documents.remember(part))
        return [point["id"] for point in points]

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """A store with these texts; further arguments are those of the store, ``collection`` among them."""
        store = cls(embedding=embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """As ``from_texts``."""
        store = cls(embedding=embedding, **kwargs)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    def delete(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        **kwargs: Any,
    ) -> bool:
        """Deletes documents by their ids, or all that match the filter, and returns True; absent ids are no fault."""
        _no_more(kwargs)
        self._caller.call(self._documents.delete(ids, filter))
        return True

    async def adelete(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        **kwargs: Any,
    ) -> bool:
        """As ``delete``."""
        _no_more(kwargs)
        await self._caller.acall(self._documents.delete(ids, filter))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents that exist, in the order of the ids."""
        return self._caller.call(self._documents.get(ids))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """As ``get_by_ids``."""
        return await self._caller.acall(self._documents.get(ids))

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The ``k`` documents nearest to the text, 1 to 1,000; takes ``filter`` and ``score_threshold``."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """As ``similarity_search``."""
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """As ``similarity_search``, with cosines."""
        return self._caller.call(self._documents.search(self._question(query), k, **kwargs))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """As ``similarity_search_with_score``."""
        return await self._caller.acall(self._documents.search(await self._aquestion(query), k, **kwargs))

    def similarity_search_by_vector_with_score(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The ``k`` documents nearest to the vector, with cosines."""
        return self._caller.call(self._documents.search({"vector": padded(embedding)}, k, **kwargs))

    async def asimilarity_search_by_vector_with_score(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """As ``similarity_search_by_vector_with_score``."""
        return await self._caller.acall(self._documents.search({"vector": padded(embedding)}, k, **kwargs))

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """The ``k`` documents nearest to the vector."""
        return [document for document, _ in self.similarity_search_by_vector_with_score(embedding, k, **kwargs)]

    async def asimilarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """As ``similarity_search_by_vector``."""
        return [document for document, _ in await self.asimilarity_search_by_vector_with_score(embedding, k, **kwargs)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """``k`` of the ``fetch_k`` nearest documents, near to the text and unlike each other."""
        return self._caller.call(self._documents.diverse(self._question(query), k, fetch_k, lambda_mult, **kwargs))

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """As ``max_marginal_relevance_search``."""
        question = await self._aquestion(query)
        return await self._caller.acall(self._documents.diverse(question, k, fetch_k, lambda_mult, **kwargs))

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """``k`` of the ``fetch_k`` nearest documents, near to the vector and unlike each other."""
        return self._caller.call(
            self._documents.diverse({"vector": padded(embedding)}, k, fetch_k, lambda_mult, **kwargs)
        )

    async def amax_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """As ``max_marginal_relevance_search_by_vector``."""
        question = {"vector": padded(embedding)}
        return await self._caller.acall(self._documents.diverse(question, k, fetch_k, lambda_mult, **kwargs))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        """Relevance is the cosine, as ``score_threshold`` of the platform; opposite directions count as unrelated."""
        return lambda score: min(1.0, max(0.0, score))

    def _question(self, query: str) -> Question:
        return {"text": query} if self._embedding is None else {"vector": padded(self._embedding.embed_query(query))}

    async def _aquestion(self, query: str) -> Question:
        if self._embedding is None:
            return {"text": query}
        return {"vector": padded(await self._embedding.aembed_query(query))}


def _no_more(unknown: Mapping[str, Any]) -> None:
    if unknown:
        raise TypeError(f"FlotillaVectorStore takes no argument {next(iter(unknown))!r} here")
