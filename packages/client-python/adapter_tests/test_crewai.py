from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from crewai.memory.storage.backend import StorageBackend
from crewai.memory.storage.factory import set_memory_storage_factory
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory

from flotilla_client import AsyncFlotilla, Flotilla, FlotillaError, Point
from flotilla_client.crewai import FlotillaEmbedder, FlotillaStorage

AXES = 4
NOON = datetime(2026, 1, 31, 12)


def axis(number: int, also: float = 0.0) -> list[float]:
    vector = [also] * AXES
    vector[number] = 1.0
    return vector


def record(name: str, scope: str = "/", hours: int = 0, **fields: Any) -> MemoryRecord:
    made = {"id": name, "content": f"Text of {name}", "embedding": axis(0), "created_at": NOON + timedelta(hours=hours)}
    return MemoryRecord(scope=scope, **{**made, **fields})


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CrewAI's reports to its makers and its question for a trace, which waits for twenty seconds."""
    for name in ("CREWAI_TESTING", "CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED"):
        monkeypatch.setenv(name, "true")


@pytest.fixture
def collection() -> str:
    return f"crewai-{uuid4().hex[:8]}"


@pytest.fixture
def storage(fleet: Flotilla, collection: str) -> FlotillaStorage:
    return FlotillaStorage(client=fleet, collection=collection)


def names(found: list[MemoryRecord]) -> list[str]:
    return [one.id for one in found]


def test_it_has_every_method_of_the_protocol(storage: FlotillaStorage) -> None:
    backend: StorageBackend = storage
    assert isinstance(backend, StorageBackend)


def test_records_come_back_as_they_were(storage: FlotillaStorage) -> None:
    whole = record(
        "a/ä 1",
        "/crew/captain",
        categories=["x", "ÿ"],
        metadata={"n": 2**60, "deep": {"er": [1, None]}, "a.b": "dot", "__proto__": "data"},
        importance=0.25,
        embedding=[0.5, -0.25, 0.125],
        source="ada",
        private=True,
        last_accessed=NOON + timedelta(minutes=1),
    )
    empty = record("empty", content="", embedding=None)
    storage.save([whole, empty])
    assert storage.get_record("a/ä 1") == whole
    assert storage.get_record("empty") == empty
    assert storage.get_record("none") is None
    storage.save([])
    with_zone = record("zone", created_at=datetime(2026, 1, 31, 14, tzinfo=UTC).astimezone())
    storage.save([with_zone])
    found = storage.get_record("zone")
    assert found is not None
    assert found.created_at == datetime(2026, 1, 31, 14)


def test_searches_are_filtered_by_the_platform(storage: FlotillaStorage) -> None:
    storage.save(
        [
            record(
                "near", "/a/b", embedding=axis(0, also=0.2), categories=["ship", "log"], metadata={"n": 1, "k": True}
            ),
            record("exact", "/a", categories=["log"], metadata={"n": "1", "gone": None}),
            record("other scope", "/ab", embedding=axis(0, also=0.1)),
            record("far", "/a/b/c", embedding=axis(1), metadata={"a.b": 7}),
            record("none", "/a", embedding=None),
        ]
    )

    def found(**options: Any) -> list[str]:
        return [one.id for one, _ in storage.search(axis(0), **options)]

    assert found() == ["exact", "other scope", "near", "far"]
    assert found(limit=1) == ["exact"]
    assert found(scope_prefix="/a") == ["exact", "near", "far"]
    assert found(scope_prefix="a/b/") == ["near", "far"]
    assert found(scope_prefix="/") == found(scope_prefix="") == found()
    assert found(categories=["ship", "none"]) == ["near"]
    assert found(categories=["log"], limit=1, scope_prefix="/a/b") == ["near"]
    assert found(metadata_filter={"n": 1}) == ["near"]
    assert found(metadata_filter={"n": "1"}) == ["exact"]
    assert found(metadata_filter={"n": 1, "k": True}) == ["near"]
    assert found(metadata_filter={"n": 1, "k": False}) == []
    assert found(metadata_filter={"a.b": 7}) == ["far"]
    assert found(metadata_filter={"n": None}) == ["other scope", "far"]
    assert found(min_score=0.95) == ["exact", "other scope"]
    best, score = storage.search(axis(0))[0]
    assert best.embedding == axis(0)
    assert score == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda storage: storage.search(axis(0), metadata_filter={"n": [1]}), "'n' is a list"),
        (lambda storage: storage.search([0.1] * 3072), "dimensions=1536"),
        (lambda storage: storage.save([record("r", metadata={"a": 1, "a.b": 2})]), "rename one of them"),
        (lambda storage: storage.list_records(limit=-1), "not negative"),
    ],
)
def test_bad_input_names_the_fault(
    storage: FlotillaStorage, act: Callable[[FlotillaStorage], object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        act(storage)


def test_deletions_count_what_they_deleted(storage: FlotillaStorage) -> None:
    records = [
        record(f"r{number}", f"/s/{number % 2}", hours=number, categories=[f"c{number % 3}"]) for number in range(8)
    ]
    storage.save([*records, record("x", "/other", metadata={"k": 1})])
    assert storage.delete(scope_prefix="/s/0", older_than=NOON + timedelta(hours=4)) == 2
    assert storage.delete(older_than=(NOON + timedelta(hours=2)).replace(tzinfo=UTC), categories=["c1"]) == 1
    assert storage.delete(record_ids=["r3", "none"], scope_prefix="/s/0") == 0
    assert storage.delete(record_ids=["r3", "none"]) == 1
    assert storage.delete(record_ids=[]) == 0
    assert storage.delete(metadata_filter={"k": 1}) == 1
    assert names(storage.list_records()) == ["r7", "r6", "r5", "r4"]
    storage.reset("/s/1")
    assert names(storage.list_records()) == ["r6", "r4"]
    assert storage.delete() == 2
    assert storage.delete() == 0


def test_updates_replace_and_keep_embeddings(storage: FlotillaStorage) -> None:
    storage.save([record("a", "/old", categories=["x"], embedding=axis(2))])
    (listed,) = storage.list_records()
    assert listed.embedding is None
    storage.update(listed.model_copy(update={"content": "New", "scope": "/new", "categories": []}))
    assert [(one.id, one.content, one.embedding) for one, _ in storage.search(axis(2))] == [("a", "New", axis(2))]
    assert (storage.count("/old"), storage.count("/new"), storage.count()) == (0, 1, 1)
    storage.update(record("unknown"))
    assert storage.count() == 2
    storage.touch_records(["a", "none"])
    touched = storage.get_record("a")
    assert touched is not None
    assert abs(touched.last_accessed - datetime.now(UTC).replace(tzinfo=None)) < timedelta(minutes=1)
    assert (touched.created_at, touched.embedding) == (NOON, axis(2))


def test_lists_are_newest_first_in_pages(storage: FlotillaStorage) -> None:
    storage.save([record(f"r{number:04}", "/s", hours=number) for number in range(1_203)])
    assert names(storage.list_records(limit=2)) == ["r1202", "r1201"]
    assert names(storage.list_records("/s", limit=3, offset=1_100)) == ["r0102", "r0101", "r0100"]
    assert len(storage.list_records(limit=5_000)) == 1_203
    assert len(storage.list_records()) == 200
    assert storage.list_records(offset=1_203) == storage.list_records(limit=0) == []


def test_scopes_and_categories_are_found_whatever_their_number(storage: FlotillaStorage) -> None:
    storage.save(
        [
            record("root", hours=1),
            *(record(f"a{number}", f"/a/child {number % 130}", categories=[f"c{number % 7}"]) for number in range(300)),
            record("deep", "/a/deep/er", hours=5, categories=["c0", "rare"]),
            record("b", "b/", hours=-5),
            record("ab", "/ab"),
        ]
    )
    assert storage.list_scopes() == ["/a", "/ab", "/b"]
    assert storage.list_scopes("/a") == sorted([*(f"/a/child {number}" for number in range(130)), "/a/deep"])
    assert storage.list_scopes("/a/deep/er") == storage.list_scopes("/none") == []
    counts = storage.list_categories("/a")
    assert counts == {"c0": 44, **{f"c{number}": 43 for number in range(1, 6)}, "c6": 42, "rare": 1}
    assert storage.list_categories("/b") == {}
    assert sum(storage.list_categories().values()) == 302
    info = storage.get_scope_info("/a/")
    assert (info.path, info.record_count, len(info.child_scopes)) == ("/a", 301, 131)
    assert (info.oldest_record, info.newest_record) == (NOON, NOON + timedelta(hours=5))
    assert info.categories == sorted(counts)
    root = storage.get_scope_info("/")
    assert (root.record_count, root.oldest_record) == (304, NOON - timedelta(hours=5))
    assert (storage.count("/a/deep"), storage.count()) == (1, 304)
    nothing = storage.get_scope_info("/none")
    assert (nothing.record_count, nothing.oldest_record, nothing.categories, nothing.child_scopes) == (0, None, [], [])


def test_more_values_than_a_filter_takes(storage: FlotillaStorage) -> None:
    storage.save([record(f"r{number}", f"/n/{number}", categories=[f"c{number}", "all"]) for number in range(1_150)])
    assert len(storage.list_scopes("/n")) == 1_150
    assert len(storage.get_scope_info("/n").categories) == 1_151


def test_points_of_others_are_left_alone(fleet: Flotilla, storage: FlotillaStorage, collection: str) -> None:
    storage.save([record("r")])
    fleet.memory.remember(collection, Point(id="other", vector=[1.0] + [0.0] * 1535, payload={"scopes": ["/"]}))
    assert storage.get_record("other") is None
    assert [one.id for one, _ in storage.search(axis(0))] == ["r"]
    storage.reset()
    assert [point.id for point in fleet.memory.scroll(collection)] == ["other"]


async def test_asynchronous_methods_of_either_client(
    storage: FlotillaStorage, async_fleet: AsyncFlotilla, collection: str
) -> None:
    await asyncio.gather(*(storage.asave([record(f"r{number}")]) for number in range(5)))
    other = FlotillaStorage(async_fleet, collection)
    assert len(await other.asearch(axis(0), min_score=0.5)) == 5
    assert await other.adelete(record_ids=["r1"]) == 1
    # A RuntimeError would be dropped by CrewAI's background saves.
    with pytest.raises(TypeError, match="give it a Flotilla"):
        other.count()
    assert await storage.adelete() == 4


@pytest.fixture
def memory(fleet: Flotilla, storage: FlotillaStorage) -> Iterator[Memory]:
    made = Memory(storage=storage, embedder=FlotillaEmbedder(client=fleet), consolidation_threshold=1.0)
    yield made
    made.close()


def test_crewais_memory_works_on_it(memory: Memory, fleet: Flotilla) -> None:
    texts = ["The ferry leaves at nine", "The lighthouse is repaired"]
    saved = [memory.remember(text, scope="/harbour", categories=["log"], importance=0.5) for text in texts]
    found = memory.recall("When does the boat depart?", scope="/harbour", depth="shallow")
    assert found[0].record.content == texts[0]
    first = saved[0]
    assert first is not None
    memory.update(first.id, content="The ferry leaves at ten", scope="/harbour/new")
    assert [one.content for one in memory.list_records("/harbour/new")] == ["The ferry leaves at ten"]
    assert memory.list_categories() == {"log": 2}
    assert "/harbour (2 records)" in memory.tree()
    assert memory.forget(scope="/harbour/new") == 1
    memory.reset()
    assert memory.list_records() == []


def test_the_embedder_takes_texts_of_any_length_and_number(fleet: Flotilla) -> None:
    embedder = FlotillaEmbedder(client=fleet)
    vectors = embedder([*("é" * 20_000 for _ in range(60)), *(str(number) for number in range(1_001))])
    assert [len(vector) for vector in vectors] == [1536] * 1_061
    assert vectors[0] == vectors[59] != vectors[60] != vectors[61]
    assert embedder(["\u0001" * 16_384])[0] == embedder(["\u0001" * 17_000])[0]
    assert embedder([]) == []


@pytest.mark.parametrize("spec", [{}, {"storage": "flotilla"}])
def test_a_factory_makes_it_by_name(collection: str, spec: dict[str, Any]) -> None:
    set_memory_storage_factory(
        lambda name: FlotillaStorage(collection=collection) if name in ("flotilla", "lancedb") else None
    )
    try:
        memory = Memory(embedder=len, **spec)
        assert memory.list_records() == []
        used = memory._storage
        memory.close()
        assert isinstance(used, FlotillaStorage)
        with pytest.raises(FlotillaError, match="closed"):
            used.count()
    finally:
        set_memory_storage_factory(None)
