"""LangChain's own suite for vector stores, over either client, and what it leaves out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests

from flotilla_client import AsyncFlotilla, Flotilla, Invalid, NotFound
from flotilla_client.langchain import FlotillaVectorStore

ALL = {"must_not": [{"is_empty": {"key": "text"}}]}
SUITE, TEXTS = (f"langchain-{kind}-{uuid4().hex[:8]}" for kind in ("suite", "texts"))


class TestSuite(VectorStoreIntegrationTests):
    """Blocking and asynchronous calls over a blocking client."""

    @pytest.fixture
    def vectorstore(self, fleet: Flotilla) -> Iterator[VectorStore]:
        store = FlotillaVectorStore(client=fleet, collection=SUITE, embedding=self.get_embeddings())
        yield store
        store.delete(filter=ALL)


class TestAsyncSuite(VectorStoreIntegrationTests):
    """The asynchronous calls over an asyncio client."""

    @pytest.fixture
    async def vectorstore(self, async_fleet: AsyncFlotilla) -> AsyncIterator[VectorStore]:
        store = FlotillaVectorStore(client=async_fleet, collection=SUITE, embedding=self.get_embeddings())
        yield store
        await store.adelete(filter=ALL)

    only_async = True


class Axes(Embeddings):
    """One direction for each word that it knows."""

    words = ("fog", "ferry", "lamp")

    def embed_query(self, text: str) -> list[float]:
        return [1.0 if word in text else 0.1 for word in self.words]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


@pytest.fixture
def store(fleet: Flotilla) -> Iterator[FlotillaVectorStore]:
    made = FlotillaVectorStore(client=fleet, collection=TEXTS)
    yield made
    made.delete(filter=ALL)


DOCUMENTS = [
    Document(id="a", page_content="The ferry leaves at nine", metadata={"place": "quay", "day": 1, "tags": ["boat"]}),
    Document(id="b", page_content="The lighthouse has a new lamp", metadata={"place": "cliff", "day": 2}),
    Document(id="c", page_content="Fog kept the ferry in", metadata={"place": "quay", "day": 3, "done": True}),
]


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ({}, "abc"),
        ({"place": "quay"}, "ac"),
        ({"place": "quay", "day": 3}, "c"),
        ({"day": "3"}, ""),
        ({"done": True}, "c"),
        ({"done": None}, "ab"),
        ({"day": [1, 2]}, "ab"),
        ({"tags": "boat"}, "a"),
        ({"must": ["quay"]}, ""),
        ({"must": []}, "abc"),
        ({"must": [{"key": "metadata.day", "range": {"gte": 2}}]}, "bc"),
        ({"must_not": [{"key": "metadata.place", "match": {"value": "quay"}}]}, "b"),
        ({"must": [{"key": "text", "match": {"text": "ferry"}}]}, "ac"),
    ],
)
def test_filters_are_answered_by_the_platform(store: FlotillaVectorStore, asked: dict[str, Any], ids: str) -> None:
    store.add_documents(DOCUMENTS)
    assert sorted(str(one.id) for one in store.similarity_search("ferry", k=10, filter=asked)) == list(ids)
    assert len(store.max_marginal_relevance_search("ferry", k=10, filter=asked)) == len(ids)


def test_metadata_and_texts_are_data(store: FlotillaVectorStore) -> None:
    metadata = {"text": "x", "must": "y", "metadata": {"a": [1, None, {"b": 2.5}]}, "größe": "☃", "": "\x00", "a.b": 1}
    document = Document(id=" /ä?'\"☃", page_content="' OR 1=1; --\x00 ☃", metadata=metadata)
    store.add_documents([document])
    assert store.get_by_ids([" /ä?'\"☃"]) == [document]
    assert store.similarity_search("OR", k=1, filter={"must": "y"}) == [document]
    assert store.delete([" /ä?'\"☃"]) is True
    assert store.get_by_ids([" /ä?'\"☃"]) == []


def test_the_platform_embeds_by_meaning_and_scores_are_cosines(store: FlotillaVectorStore) -> None:
    store.add_documents(DOCUMENTS)
    (best, score), *others = store.similarity_search_with_score("Is there mist over the boat?", k=3)
    assert best.id == "c"
    assert 1 >= score >= max(other for _, other in others)
    assert store.similarity_search_with_relevance_scores("The ferry leaves at nine", k=1)[0][1] == pytest.approx(1)
    assert store.similarity_search("ferry", k=3, score_threshold=0.99) == []
    retriever = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.9})
    assert [one.id for one in retriever.invoke("The ferry leaves at nine")] == ["a"]


def test_short_vectors_keep_their_cosines_and_diversity_is_by_them(fleet: Flotilla, store: FlotillaVectorStore) -> None:
    own = FlotillaVectorStore.from_texts(
        ["fog fog", "fog", "fog and ferry"], Axes(), [{"n": n} for n in range(3)], client=fleet, collection=TEXTS
    )
    assert own.embeddings is not None
    scores = [score for _, score in own.similarity_search_by_vector_with_score([1.0, 0.1, 0.1], k=3)]
    assert scores == pytest.approx([1, 1, 1.11 / (1.02 * 2.01) ** 0.5])
    assert [one.metadata["n"] for one in own.similarity_search_by_vector([0, 1], k=1)] == [2]
    found = own.max_marginal_relevance_search_by_vector([1.0, 0.1, 0.1], k=2, lambda_mult=0.2)
    assert (found[0].metadata["n"] in (0, 1), found[1].metadata["n"]) == (True, 2)
    assert len(own.max_marginal_relevance_search("fog", k=2, fetch_k=3)) == 2


def test_many_texts_are_written_in_batches_and_deleted_by_a_filter(store: FlotillaVectorStore) -> None:
    ids = store.add_texts((f"Entry {n}" for n in range(1_203)), batch_size=400)
    assert len(set(ids)) == 1_203
    found = store.get_by_ids(ids[::10])
    assert [one.page_content for one in found] == [f"Entry {n}" for n in range(0, 1_203, 10)]
    store.delete(ids[:1_100])
    assert len(store.similarity_search("Entry", k=1_000)) == 103
    store.delete(filter={"must": [{"key": "text", "match": {"text": "entry"}}]})
    assert store.similarity_search("Entry") == []


def test_metadata_next_to_the_text_and_points_of_others(fleet: Flotilla, store: FlotillaVectorStore) -> None:
    fleet.memory.remember(TEXTS, {"id": "other", "text": "Of another agent", "payload": {"status": "active"}})
    assert store.get_by_ids(["other"])[0].metadata == {"status": "active"}
    flat = FlotillaVectorStore(client=fleet, collection=TEXTS, metadata_key=None)
    flat.add_texts(["Mine"], [{"status": "active"}], ids=["mine"])
    assert sorted(str(one.id) for one in flat.similarity_search("agent", filter={"status": "active"})) == [
        "mine",
        "other",
    ]
    with pytest.raises(ValueError, match="'text' is taken"):
        flat.add_texts(["Mine"], [{"text": "x"}])


def test_what_is_wrong_is_said(fleet: Flotilla, store: FlotillaVectorStore) -> None:
    long = FlotillaVectorStore(client=fleet, collection=TEXTS, embedding=DeterministicFakeEmbedding(size=1_537))
    for call, reason in (
        (lambda: long.add_texts(["a"]), "1537 numbers, and the platform takes 1536: choose"),
        (lambda: long.similarity_search("a"), "dimensions=1536"),
        (lambda: store.add_texts(["a"], ids=["1", "2"]), "1 texts and 2 ids"),
        (lambda: store.add_texts(["a"], metadatas=[]), "0 metadatas"),
        (lambda: store.add_texts(["a"], [{"a": object()}]), "cannot be sent as JSON"),
        (lambda: store.add_texts(["a"], batch_size=0), "give 1 or more"),
        (lambda: store.similarity_search("a", k=1_001), "1 to 1,000"),
        (lambda: store.similarity_search("a", filter={"day": {"$gt": 1}}), "filter of 'metadata.day' is a dict"),
        (lambda: store.delete(), "ids or a filter"),
        (lambda: store.delete("ab"), "ids is a list of texts"),
        (lambda: store.get_by_ids("ab"), "ids is a list of texts"),
        (lambda: store.add_texts("ab"), r"give \['ab'\]"),
        (lambda: store.delete(["a"], filter=ALL), "and not both"),
    ):
        with pytest.raises(ValueError, match=reason):
            call()
    with pytest.raises(TypeError, match="'filtr'"):
        store.add_texts(["a"], filtr=1)
    with pytest.raises(TypeError, match="not a str"):
        FlotillaVectorStore(client="http://here", collection=TEXTS)  # type: ignore[arg-type]
    with pytest.raises(Invalid):
        store.add_texts([""])
    with pytest.raises(NotFound, match="collection_not_found"):
        FlotillaVectorStore(client=fleet, collection="none-such", create_collection=False).similarity_search("a")
    assert store.similarity_search("a") == []


async def test_an_asyncio_client_serves_what_is_awaited_alone(async_fleet: AsyncFlotilla) -> None:
    made = await FlotillaVectorStore.afrom_texts(["Fog"], None, ids=["f"], client=async_fleet, collection=TEXTS)
    with pytest.raises(RuntimeError, match="give a Flotilla"):
        made.similarity_search("Fog")
    assert (await made.as_retriever(search_type="mmr").ainvoke("Fog"))[0].id == "f"
    assert (await made.asimilarity_search_by_vector([1.0] * 1_536, k=1))[0].id == "f"
    assert (await made.asimilarity_search_with_relevance_scores("Fog"))[0][1] == pytest.approx(1)
    await made.adelete(["f"])


def test_a_client_is_made_from_the_environment() -> None:
    made = FlotillaVectorStore(collection=TEXTS).client
    assert isinstance(made, Flotilla)
    with made:
        assert made.agent_id == "rover"


def test_without_langchain_the_import_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['langchain_core'] = None; import flotilla_client; import flotilla_client.langchain"
    )
    source = Path(__file__).parents[1] / "src"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=False
    )
    assert "ImportError: flotilla_client.langchain needs LangChain" in done.stderr
    assert "pip install 'flotilla-client[langchain]'" in done.stderr
