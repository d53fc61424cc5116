"""LangGraph's store over either client: operations, filters, namespaces, searches by meaning, lifetimes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.embeddings import Embeddings
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp

from flotilla_client import AsyncFlotilla, Flotilla, Invalid, NotFound, Point
from flotilla_client._langgraph_items import item_id
from flotilla_client.langgraph import FlotillaStore

COLLECTION = f"langgraph-{uuid4().hex[:8]}"


@pytest.fixture
def store(fleet: Flotilla) -> Iterator[FlotillaStore]:
    made = FlotillaStore(client=fleet, collection=COLLECTION)
    yield made
    fleet.memory.delete(COLLECTION, filter={"must": [{"key": "prefixes", "match": {"value": "[]"}}]}, wait=True)


def keys(found: Any) -> str:
    return "".join(sorted(item.key for item in found))


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_items_are_stored_read_changed_and_deleted(store: FlotillaStore) -> None:
    assert store.get(("users", "mia"), "food") is None
    begun = datetime.now(UTC)
    store.put(("users", "mia"), "food", {"likes": ["pizza"], "since": 2.5})
    first = store.get(("users", "mia"), "food")
    assert first is not None
    assert (first.namespace, first.key, first.value) == (("users", "mia"), "food", {"likes": ["pizza"], "since": 2.5})
    assert begun <= first.created_at == first.updated_at <= datetime.now(UTC)
    store.put(("users", "mia"), "food", {"likes": []})
    second = store.get(("users", "mia"), "food")
    assert second is not None
    assert (second.value, second.created_at) == ({"likes": []}, first.created_at)
    assert second.updated_at > first.updated_at
    store.delete(("users", "mia"), "food")
    store.delete(("users", "mia"), "food")
    assert store.get(("users", "mia"), "food") is None


@pytest.mark.parametrize(
    ("namespace", "key"),
    [(("a", "b"), "c"), (("a",), "b/c"), (("a/b",), "c"), (('["a","b"]',), ' "ä☃\n'), (("x" * 900,), "y" * 900)],
)
def test_names_and_values_are_data(store: FlotillaStore, namespace: tuple[str, ...], key: str) -> None:
    value: dict[str, Any] = {
        "": None,
        "a.b": {"$gt": [1, -0.5, True]},
        "text": "' OR 1=1\x00 ☃",
        "n": 2**53,
        "facts": {},
        "deep": [[{}]],
    }
    others = [(("a", "b"), "x"), (("a",), "b"), (("a", "b", "c"), "")]
    for other in others:
        store.put(*other, {"other": True})
    store.put(namespace, key, value)
    found = store.get(namespace, key)
    assert found is not None
    assert (found.namespace, found.key, found.value) == (namespace, key, value)
    assert [item.value for item in store.search(namespace, filter={"n": 2**53})] == [value]
    assert namespace in store.list_namespaces()


VALUES: dict[str, dict[str, Any]] = {
    "a": {"n": 1, "kind": "x", "tags": ["x"], "user": {"name": "Mia", "age": 3}, "at": "2026-01-02T00:00:00Z"},
    "b": {"n": 2.5, "kind": ["x"], "user": {"name": "Mia"}, "at": "2026-03-02T00:00:00Z", "a.b": 1},
    "c": {"n": "1", "kind": None, "user": "Mia", "done": True},
    "d": {"n": 1.0, "done": 1},
}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"n": 1}, "ad"),
        ({"n": "1"}, "c"),
        ({"n": {"$eq": 2.5}}, "b"),
        ({"n": {"$ne": 1}}, "bc"),
        ({"n": {"$gt": 1}}, "b"),
        ({"n": {"$gte": 1, "$lt": 2}}, "ad"),
        ({"n": {"$lte": 1}, "kind": "x"}, "a"),
        ({"kind": "x"}, "a"),
        ({"kind": ["x"]}, "b"),
        ({"kind": None}, "cd"),
        ({"kind": {"$ne": None}}, "ab"),
        ({"kind": {"$ne": "x"}}, "bcd"),
        ({"done": True}, "c"),
        ({"done": 1}, "d"),
        ({"a.b": 1}, "b"),
        ({"user": {"name": "Mia"}}, "ab"),
        ({"user": {"name": "Mia", "age": {"$gt": 2}}}, "a"),
        ({"user": {"$eq": {"name": "Mia"}}}, "b"),
        ({"at": {"$gt": "2026-02-01T00:00:00Z"}}, "b"),
        ({}, "abcd"),
    ],
)
def test_filters_are_exact(store: FlotillaStore, asked: dict[str, Any], expected: str) -> None:
    store.batch([PutOp(("f",), key, value) for key, value in VALUES.items()])
    assert keys(store.search(("f",), filter=asked)) == expected
    assert keys(store.search((), filter=asked, query="Mia", limit=50)) == expected


def test_searches_without_a_query_give_the_newest_first_in_pages(store: FlotillaStore) -> None:
    for n in range(3):
        store.batch([PutOp(("log", str(n)), f"{n}-{m}", {"n": n}, index=False) for m in range(400)])
    newest = store.search(("log",), limit=3)
    assert {item.value["n"] for item in newest} == {2}
    assert newest[0].score is None
    pages = [store.search(("log",), limit=150, offset=at) for at in range(0, 1_300, 150)]
    assert len({item.key for page in pages for item in page}) == sum(map(len, pages)) == 1_200
    assert len(store.search(("log",), limit=5_000, filter={"n": {"$lt": 2}})) == 800
    assert store.search(("log", "1"), limit=0) == []
    assert store.search(("lo",)) == []
    assert store.list_namespaces(prefix=("log",)) == [("log", "0"), ("log", "1"), ("log", "2")]


def test_searches_by_a_query_find_the_meaning(store: FlotillaStore) -> None:
    store.put(("m", "a"), "ferry", {"text": "The ferry leaves at nine"})
    store.put(("m", "b"), "lamp", {"text": "The lighthouse has a new lamp"})
    store.put(("m", "b"), "hidden", {"text": "The ferry is gone"}, index=False)
    store.put(("m", "b"), "named", {"title": "Fog over the harbour", "rest": "ferry ferry"}, index=["title"])
    found = store.search(("m",), query="When does the ferry leave?")
    assert found[0].key == "ferry"
    assert keys(found) == keys(store.search(("m", "a"), query="x")) + "lampnamed"
    scores = [item.score for item in found if item.score is not None]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert [item.key for item in store.search(("m",), query="mist at the quay", limit=1)] == ["named"]
    assert [item.key for item in store.search(("m",), query="ferry", offset=1, limit=1)] == [
        store.search(("m",), query="ferry")[1].key
    ]


class Axes(Embeddings):
    """One direction for each word that it knows."""

    def embed_query(self, text: str) -> list[float]:
        return [1.0 if word in text else 0.1 for word in ("fog", "ferry", "lamp")]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


async def test_a_model_of_ones_own_makes_short_vectors(fleet: Flotilla, store: FlotillaStore) -> None:
    own = FlotillaStore(
        client=fleet, collection=COLLECTION, index={"dims": 3, "embed": Axes(), "fields": ["a", "b[*].c"]}
    )
    own.put(("v",), "1", {"a": "fog", "b": [{"c": "ferry"}], "rest": "lamp"})
    await own.aput(("v",), "2", {"a": "lamp"})
    own.put(("v",), "3", {"rest": "lamp"})
    assert [item.key for item in own.search(("v",), query="lamp")] == ["2", "1"]
    found = await own.asearch(("v",), query="fog and ferry")
    assert found[0].key == "1"
    assert found[0].score == pytest.approx(1)
    with pytest.raises(ValueError, match="dims 3072"):
        FlotillaStore(client=fleet, collection=COLLECTION, index={"dims": 3_072, "embed": Axes()})


def test_namespaces_are_listed_by_prefix_suffix_and_depth(store: FlotillaStore) -> None:
    names = ["a b c", "a b d e", "a b d i", "a b f", "a c f", "b a f", "b"]
    store.batch([PutOp(tuple(name.split()), key, {"n": 1}) for name in names for key in "xy"])

    def listed(**asked: Any) -> list[str]:
        return [" ".join(namespace) for namespace in store.list_namespaces(**asked)]

    assert listed() == sorted(names)
    assert listed(prefix=("a", "b"), max_depth=3) == ["a b c", "a b d", "a b f"]
    assert listed(prefix=("*", "b")) == ["a b c", "a b d e", "a b d i", "a b f"]
    assert listed(prefix=("a", "*", "f")) == ["a b f", "a c f"]
    assert listed(suffix=("f",)) == ["a b f", "a c f", "b a f"]
    assert listed(suffix=("*", "f"), prefix=("a",)) == ["a b f", "a c f"]
    assert listed(prefix=("a", "b", "c", "d")) == []
    assert listed(max_depth=1) == ["a", "b"]
    assert listed(limit=2, offset=1) == sorted(names)[1:3]
    store.batch([PutOp(("b",), key, None) for key in "xy"])
    assert listed(prefix=("b",)) == ["b a f"]


def test_a_batch_reads_before_it_writes_and_keeps_the_last_write(store: FlotillaStore) -> None:
    store.put(("n",), "old", {"v": 0})
    ops: list[Op] = [
        PutOp(("n",), "new", {"v": 1}),
        GetOp(("n",), "new"),
        PutOp(("n",), "new", {"v": 2}),
        GetOp(("n",), "old"),
        PutOp(("n",), "old", None),
        SearchOp(("n",), None, 10, 0),
        ListNamespacesOp((MatchCondition("prefix", ("n",)),), None, 10, 0),
        GetOp(("n",), "old"),
    ]
    results: list[Any] = store.batch(ops)
    assert [results[at] for at in (0, 1, 2, 4)] == [None] * 4
    assert (results[3].value, keys(results[5]), results[6], results[7].value) == ({"v": 0}, "old", [("n",)], {"v": 0})
    found = store.search(("n",))
    assert [(item.key, item.value) for item in found] == [("new", {"v": 2})]
    assert store.batch([]) == []


def test_items_expire(store: FlotillaStore) -> None:
    store.put(("ttl", "short"), "k", {"text": "Fog"}, ttl=1 / 60)
    store.put(("ttl", "long"), "k", {"text": "Fog"}, ttl=60)
    eventually(lambda: store.get(("ttl", "short"), "k", refresh_ttl=False) is None)
    assert [item.namespace for item in store.search(("ttl",))] == [("ttl", "long")]
    assert store.list_namespaces(prefix=("ttl",)) == [("ttl", "long")]


def test_reads_renew_the_lifetime_of_items(fleet: Flotilla) -> None:
    store = FlotillaStore(client=fleet, collection=COLLECTION, ttl={"default_ttl": 60, "refresh_on_read": True})
    names = ("got", "found", "newest", "looked", "bare")

    def minutes_left(name: str) -> float:
        end = fleet.memory.get(COLLECTION, item_id(("ttl", name), "k")).expires_at
        return (datetime.fromisoformat(end or "") - datetime.now(UTC)).total_seconds() / 60

    def is_renewed(name: str) -> bool:
        return 50 < minutes_left(name) <= 60

    for name in names:
        store.put(("ttl", name), "k", {"text": "Fog"}, index=False if name == "bare" else None)
        assert is_renewed(name)
        old = fleet.memory.get(COLLECTION, item_id(("ttl", name), "k"))
        aged = Point(
            id=old.id, vector=old.vector, payload=old.payload, expires_at=datetime.now(UTC) + timedelta(minutes=9)
        )
        fleet.memory.remember(COLLECTION, aged)
    first = store.get(("ttl", "got"), "k")
    bare = store.get(("ttl", "bare"), "k")
    store.search(("ttl", "found"), query="fog")
    store.search(("ttl", "newest"))
    store.get(("ttl", "looked"), "k", refresh_ttl=False)
    for name in names:
        if name != "looked":
            eventually(lambda name=name: is_renewed(name))  # type: ignore[misc]
    assert minutes_left("looked") < 9
    assert (store.get(("ttl", "got"), "k"), store.get(("ttl", "bare"), "k")) == (first, bare)
    assert keys(store.search(("ttl",), query="fog")) == "kkkk"
    store.put(("ttl", "got"), "k", {}, ttl=None)
    assert fleet.memory.get(COLLECTION, item_id(("ttl", "got"), "k")).expires_at is None
    store.batch([PutOp(("ttl", name), "k", None) for name in names])


def test_what_is_wrong_is_said(fleet: Flotilla, store: FlotillaStore) -> None:
    faults: list[tuple[Any, str]] = [
        (lambda: store.put(("n",), "k", ["a"]), "a value is a dict"),  # type: ignore[arg-type]
        (lambda: store.put(("n",), "k", {"a": datetime.now(UTC)}), "a datetime is no JSON"),
        (lambda: store.put(("n",), "k", {"a": [{1: 2}]}), "the key 1 is no text"),
        (lambda: store.put(("n",), "k", {"a": float("nan")}), "JSON"),
        (lambda: store.put(("n",), "k", {"a": 2**53 + 1}), "store it as a text"),
        (lambda: store.put(("n",), "k", {}, ttl=0), "minutes above 0, not 0"),
        (lambda: store.put(("n",), "k", {}, ttl=float("nan")), "minutes above 0"),
        (lambda: store.put(("n",), "k", {}, ttl=1e300), "minutes above 0"),
        (lambda: store.search(("n",), filter={"a": {"$in": [1]}}), r"'\$in': it takes \$eq"),
        (lambda: store.search(("n",), filter={"a": {"$gt": "x"}}), "a number or an ISO 8601 time, not 'x'"),
        (lambda: store.search(("n",), filter={"a.b": {"$gt": 1}}), "rename it"),
        (lambda: store.search(("n",), query="x", limit=1_001), "1,000 together"),
        (lambda: store.search(("n",), limit=-1), "below 0"),
    ]
    for call, reason in faults:
        with pytest.raises(ValueError, match=reason):
            call()
    with pytest.raises(InvalidNamespaceError):
        store.put((), "k", {})
    with pytest.raises(Invalid, match="payload"):
        store.put(("n",), "k", {"a": "x" * 70_000})
    with pytest.raises(NotFound, match="collection_not_found"):
        FlotillaStore(client=fleet, collection="none-such", create_collection=False).get(("a",), "b")
    assert store.search(("n",)) == []


async def test_either_client_serves_tasks_and_an_asyncio_client_them_alone(
    async_fleet: AsyncFlotilla, store: FlotillaStore
) -> None:
    own = FlotillaStore(client=async_fleet, collection=COLLECTION)
    await asyncio.gather(*(own.aput(("t",), str(n), {"n": n}) for n in range(8)))
    assert len(await store.asearch(("t",), filter={"n": {"$gte": 3}})) == 5
    assert (await own.aget(("t",), "1")) == (await store.aget(("t",), "1"))
    assert await own.alist_namespaces() == [("t",)]
    with pytest.raises(RuntimeError, match="give a Flotilla"):
        own.get(("t",), "1")
    await own.adelete(("t",), "1")
    assert await store.aget(("t",), "1") is None


def test_a_graph_remembers_by_it(store: FlotillaStore) -> None:
    class State(TypedDict):
        said: str

    def remember(state: State, runtime: Runtime[None]) -> State:
        assert runtime.store is not None
        runtime.store.put(("chat",), "last", {"text": state["said"]})
        return state

    graph = StateGraph(State)
    graph.add_node("remember", remember)
    graph.add_edge(START, "remember")
    graph.add_edge("remember", END)
    graph.compile(store=store).invoke({"said": "Fog until noon"})
    assert [item.value["text"] for item in store.search(("chat",), query="mist")] == ["Fog until noon"]


def test_without_langgraph_the_import_names_the_extra() -> None:
    program = "import sys; sys.modules['langgraph'] = None; import flotilla_client; import flotilla_client.langgraph"
    source = Path(__file__).parents[1] / "src"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=False
    )
    assert "ImportError: flotilla_client.langgraph needs LangGraph" in done.stderr
    assert "pip install 'flotilla-client[langgraph]'" in done.stderr
