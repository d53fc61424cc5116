from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from flotilla_client import AsyncFlotilla, Flotilla, Invalid, Point
from flotilla_client.llamaindex import FlotillaEmbedding, FlotillaVectorStore

AXES = 4


def axis(number: int, also: float = 0.0) -> list[float]:
    vector = [also] * AXES
    vector[number] = 1.0
    return vector


def node(node_id: str, vector: list[float], document: str = "book", **metadata: Any) -> TextNode:
    made = TextNode(id_=node_id, text=f"Text of {node_id}", embedding=vector, metadata=metadata)
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document)
    return made


@pytest.fixture
def collection() -> str:
    return f"llamaindex-{uuid4().hex[:8]}"


@pytest.fixture
def store(fleet: Flotilla, collection: str) -> FlotillaVectorStore:
    return FlotillaVectorStore(client=fleet, collection=collection)


def ids_of(found: list[BaseNode]) -> list[str]:
    return sorted(one.node_id for one in found)


def ask(number: int, top: int = 10, **options: Any) -> VectorStoreQuery:
    return VectorStoreQuery(query_embedding=axis(number), similarity_top_k=top, **options)


def one(key: str, operator: str, value: Any = None) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=FilterOperator(operator))])


def test_nodes_of_every_kind_come_back_as_they_were(store: FlotillaVectorStore) -> None:
    related = TextNode(
        id_="a/ä 1",
        text="Fog until noon\n",
        embedding=axis(0),
        metadata={"n": 2**60, "tags": ["x"], "deep": {"er": 1}, "a.b": "dot", "__proto__": "data"},
        excluded_embed_metadata_keys=["n"],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc", metadata={"k": "v"})},
    )
    nodes: list[BaseNode] = [
        related,
        Node(id_="node", text_resource=MediaResource(text="A resource"), embedding=axis(1)),
        Node(id_="empty", embedding=axis(1)),
        ImageNode(id_="image", image_url="http://127.0.0.1/a.png", embedding=axis(2)),
        IndexNode(id_="index", index_id="other", text="An index", embedding=axis(3)),
    ]
    assert store.add(nodes) == [each.node_id for each in nodes]
    found = {each.node_id: each for each in store.get_nodes()}
    assert len(found) == 5
    for each in nodes:
        assert type(found[each.node_id]) is type(each)
        assert found[each.node_id].model_dump(exclude={"embedding"}) == each.model_dump(exclude={"embedding"})
    assert related.embedding == axis(0)
    assert found["a/ä 1"].get_content(MetadataMode.NONE) == "Fog until noon\n"


def test_queries_find_the_nearest_nodes_with_cosines(store: FlotillaVectorStore) -> None:
    store.add([node("x", axis(0)), node("y", axis(1)), node("near x", axis(0, also=0.2))])
    found = store.query(ask(0, top=2))
    assert found.ids == ["x", "near x"]
    assert found.similarities is not None
    assert found.similarities == pytest.approx([1.0, 0.9449], abs=1e-3)
    assert [each.get_content() for each in found.nodes or []] == ["Text of x", "Text of near x"]
    store.add([node("x", axis(1))])
    assert store.query(ask(0, top=1)).ids == ["near x"]


PEOPLE: dict[str, dict[str, Any]] = {
    "ada": {"age": 36, "city": "London", "tags": ["math", "poetry"], "born": "1815-12-10", "bio": "First programmer"},
    "bob": {"age": 20, "city": "Oslo", "tags": ["ships"], "born": "1990-01-01", "bio": "programmer of ferries"},
    "cyd": {"age": 20.5, "city": "", "tags": [], "bio": "Captain"},
    "dot": {"city": "x' OR 1=1", "a.b": 7},
}


@pytest.fixture
def people(store: FlotillaVectorStore) -> FlotillaVectorStore:
    store.add([node(name, axis(0), document=f"doc-{name}", **fields) for name, fields in PEOPLE.items()])
    return store


CASES: list[tuple[tuple[Any, ...], str]] = [
    (("city", "==", "Oslo"), "bob"),
    (("age", "==", 20), "bob"),
    (("city", "==", "x' OR 1=1"), "dot"),
    (("a.b", "==", 7), "dot"),
    (("city", "!=", "Oslo"), "ada cyd dot"),
    (("age", "!=", 20), "ada cyd dot"),
    (("age", ">", 20), "ada cyd"),
    (("age", ">=", 20), "ada bob cyd"),
    (("age", "<", 36), "bob cyd"),
    (("age", "<=", 20), "bob"),
    (("born", "<", "1900-01-01T00:00:00Z"), "ada"),
    (("city", "in", ["Oslo", "London"]), "ada bob"),
    (("city", "in", []), ""),
    (("city", "nin", ["Oslo", "London"]), "cyd dot"),
    (("age", "nin", [20]), "ada cyd dot"),
    (("city", "nin", []), "ada bob cyd dot"),
    (("tags", "any", ["ships", "math"]), "ada bob"),
    (("tags", "all", ["poetry", "math"]), "ada"),
    (("tags", "contains", "ships"), "bob"),
    (("bio", "text_match_insensitive", "PROGRAMMER"), "ada bob"),
    (("tags", "is_empty"), "cyd dot"),
    (("city", "is_empty"), "cyd"),
    (("age", "is_empty"), "dot"),
]


def test_operators_select_what_the_simple_store_selects(people: FlotillaVectorStore) -> None:
    for case, expected in CASES:
        assert ids_of(people.get_nodes(filters=one(*case))) == expected.split(), case


def test_operators_agree_with_the_simple_store(people: FlotillaVectorStore) -> None:
    simple = SimpleVectorStore()
    simple.add([node(name, axis(0), **fields) for name, fields in PEOPLE.items()])
    for case, expected in CASES:
        # It compares missing numbers and texts by their types' own rules.
        if case[0] in ("born", "tags", "bio"):
            continue
        assert sorted(simple.query(ask(0, filters=one(*case))).ids or []) == expected.split(), case


def test_conditions_are_combined_and_nested(people: FlotillaVectorStore) -> None:
    oslo = MetadataFilter(key="city", value="Oslo")
    young = MetadataFilter(key="age", value=30, operator=FilterOperator.LT)

    def found(condition: FilterCondition, *filters: Any) -> list[str]:
        return ids_of(people.get_nodes(filters=MetadataFilters(filters=list(filters), condition=condition)))

    both = MetadataFilters(filters=[oslo, young], condition=FilterCondition.AND)
    assert found(FilterCondition.AND, oslo, young) == ["bob"]
    assert found(FilterCondition.OR, oslo, young) == ["bob", "cyd"]
    assert found(FilterCondition.NOT, oslo, young) == ["ada", "dot"]
    assert found(FilterCondition.NOT, both) == ["ada", "cyd", "dot"]
    assert found(FilterCondition.OR, both, MetadataFilter(key="city", value="London")) == ["ada", "bob"]
    assert found(FilterCondition.AND) == ["ada", "bob", "cyd", "dot"]
    assert people.query(ask(0, filters=both)).ids == ["bob"]


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        (one("bio", "text_match", "First"), "'bio' use text_match_insensitive"),
        (one("age", ">", "many"), "takes a number, or a time"),
        (one("age", "in", 3), "takes a list"),
        (one("age", "==", [3]), "takes one text or number"),
        (one("age", "=="), "use is_empty"),
        (one("bio", "text_match_insensitive", " "), "at least one word"),
    ],
)
def test_filters_that_cannot_be_meant_are_refused(store: FlotillaVectorStore, filters: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        store.get_nodes(filters=filters)


def test_queries_name_nodes_and_documents(people: FlotillaVectorStore) -> None:
    assert sorted(people.query(ask(0, node_ids=["ada", "bob", "none"])).ids or []) == ["ada", "bob"]
    assert people.query(ask(0, doc_ids=["doc-cyd"])).ids == ["cyd"]
    assert people.query(ask(0, doc_ids=["doc-cyd"], node_ids=["ada"])).ids == []
    assert len(people.query(ask(0, node_ids=[], doc_ids=[])).ids or []) == 4
    many = [f"no-{number}" for number in range(1_500)]
    assert people.query(ask(0, node_ids=[*many, "dot"])).ids == ["dot"]
    assert ids_of(people.get_nodes([*many, "dot", "dot"])) == ["dot"]


def test_deletions_take_documents_ids_and_filters(people: FlotillaVectorStore) -> None:
    people.delete("doc-ada")
    people.delete("no such document")
    assert ids_of(people.get_nodes()) == ["bob", "cyd", "dot"]
    people.delete_nodes(["bob", "cyd"], filters=one("city", "==", "Oslo"))
    assert ids_of(people.get_nodes()) == ["cyd", "dot"]
    people.delete_nodes(["dot", "none"])
    assert ids_of(people.get_nodes()) == ["cyd"]
    people.delete_nodes([])
    with pytest.raises(ValueError, match="clear deletes every node"):
        people.delete_nodes()
    people.delete_nodes(filters=one("city", "is_empty"))
    assert people.get_nodes() == []


def test_points_of_others_are_neither_found_nor_cleared(
    fleet: Flotilla, store: FlotillaVectorStore, collection: str
) -> None:
    store.add([node("x", axis(0))])
    fleet.memory.remember(collection, Point(id="other", vector=[1.0] + [0.0] * 1535, payload={"node_id": "x"}))
    assert store.query(ask(0)).ids == ["x"]
    store.clear()
    assert store.get_nodes() == []
    assert [point.id for point in fleet.memory.scroll(collection)] == ["other"]


def test_text_search_ranks_the_nodes_with_every_word(store: FlotillaVectorStore) -> None:
    texts = {"a": "The Ferry leaves at nine", "b": "At nine the bell rings", "c": "A ferry is late"}
    for number, (name, text) in enumerate(texts.items()):
        store.add([TextNode(id_=name, text=text, embedding=axis(number))])
    found = store.query(ask(2, mode=VectorStoreQueryMode.TEXT_SEARCH, query_str="ferry"))
    assert found.ids == ["c", "a"]


def test_mmr_prefers_hits_that_differ(store: FlotillaVectorStore) -> None:
    store.add([node("x", [1, 0, 0, 0.1]), node("twin", [1, 0, 0, 0.11]), node("other", [0.8, 0.6, 0, 0])])
    assert store.query(ask(0, top=2)).ids == ["x", "twin"]
    found = store.query(ask(0, top=2, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.3))
    assert found.ids == ["x", "other"]
    assert [each.node_id for each in found.nodes or []] == ["x", "other"]


@pytest.mark.parametrize("mode", ["sparse", "hybrid", "semantic_hybrid", "svm"])
def test_other_modes_are_refused_with_those_there_are(store: FlotillaVectorStore, mode: str) -> None:
    with pytest.raises(ValueError, match="use one of default, text_search, mmr"):
        store.query(ask(0, mode=VectorStoreQueryMode(mode)))


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda store: store.query(VectorStoreQuery(query_str="fog")), "has no query_embedding"),
        (lambda store: store.add([TextNode(id_="n", text="t")]), "'n' has no embedding"),
        (lambda store: store.add([node("n", [1.0] * 3072)]), "dimensions=1536"),
        (
            lambda store: store.add([TextNode(id_="n", embedding=axis(0), metadata={"a": 1, "a.b": 2})]),
            "rename one of them",
        ),
        (lambda store: store.query(ask(0, mode=VectorStoreQueryMode.TEXT_SEARCH)), "needs the query's query_str"),
    ],
)
def test_bad_input_names_the_fault(
    store: FlotillaVectorStore, act: Callable[[FlotillaVectorStore], object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        act(store)


def test_what_the_platform_refuses_is_its_own_error(store: FlotillaVectorStore) -> None:
    with pytest.raises(Invalid):
        store.add([node("x" * 513, axis(0))])
    with pytest.raises(Invalid):
        store.query(ask(0, top=1_001))


async def test_an_asyncio_client_serves_the_asynchronous_methods(async_fleet: AsyncFlotilla, collection: str) -> None:
    store = FlotillaVectorStore(async_fleet, collection)
    await asyncio.gather(*(store.async_add([node(f"n{number}", axis(0))]) for number in range(5)))
    assert len((await store.aquery(ask(0))).ids or []) == 5
    await store.adelete_nodes(["n0"])
    assert ids_of(await store.aget_nodes()) == ["n1", "n2", "n3", "n4"]
    await store.adelete("book")
    await store.aclear()
    assert await store.aget_nodes() == []
    with pytest.raises(RuntimeError, match="asynchronous"):
        store.get_nodes()


async def test_a_blocking_client_does_not_block_the_loop(store: FlotillaVectorStore) -> None:
    await asyncio.gather(*(store.async_add([node(f"n{number}", axis(0))]) for number in range(5)))
    assert len(await store.aget_nodes()) == 5


def test_a_batch_of_long_texts_is_embedded(fleet: Flotilla) -> None:
    texts = [f"{number} " + "ferry " * 2_500 for number in range(100)]
    vectors = FlotillaEmbedding(client=fleet).get_text_embedding_batch(texts)
    assert [len(vector) for vector in vectors] == [1536] * 100


def test_an_index_with_the_platforms_embedder(collection: str) -> None:
    store = FlotillaVectorStore(collection=collection)
    assert isinstance(store.client, Flotilla)
    embedder = FlotillaEmbedding(client=store.client)
    index = VectorStoreIndex.from_vector_store(store, embed_model=embedder)
    texts = ["The lighthouse is repaired", "The ferry leaves at nine", "Fog until noon"]
    for text in texts:
        index.insert(Document(text=text, id_=text))
    retriever = index.as_retriever(similarity_top_k=1)
    assert retriever.retrieve("When does the boat depart?")[0].text == texts[1]
    found = asyncio.run(index.as_retriever(similarity_top_k=1).aretrieve("Is the beacon working?"))
    assert found[0].text == texts[0]
    words = index.as_retriever(similarity_top_k=2, vector_store_query_mode="text_search")
    assert [each.text for each in words.retrieve("the FERRY")] == [texts[1]]
    index.delete_ref_doc(texts[1])
    assert sorted(each.get_content() for each in store.get_nodes()) == sorted([texts[0], texts[2]])
    store.client.close()
