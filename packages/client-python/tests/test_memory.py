"""Points as they are sent, texts in parts, and answers as they are read."""

from __future__ import annotations

import array
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from support import SEARCH, FakePlatform, answer, problem

from flotilla_client import FlotillaError, NotFound, Point, without_audit_notes
from flotilla_client._points import PART_BYTES_MAX

ACCEPTED = {"operation_id": "op-1", "status": "applied", "collection": "posts", "points": 1}


def test_points_are_sent_by_the_names_of_the_interface(platform: FakePlatform) -> None:
    platform.otherwise = ACCEPTED
    expiry = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    with platform.client() as fleet:
        accepted = fleet.memory.upsert(
            "posts",
            [
                Point(id="a", vector=array.array("d", [1, 2.5]), payload={"größe": None}, expires_at=expiry),
                {"id": "b", "text": "Fog", "expires_at": "2026-01-02T03:04:05.000Z"},
            ],
            wait=True,
            idempotency_key="k-1",
        )
    assert accepted.operation_id == "op-1"
    assert platform.bodies() == [
        {
            "collection": "posts",
            "points": [
                {
                    "id": "a",
                    "vector": [1.0, 2.5],
                    "payload": {"größe": None},
                    "expires_at": "2026-01-02T03:04:05.000+01:00",
                },
                {"id": "b", "text": "Fog", "expires_at": "2026-01-02T03:04:05.000Z"},
            ],
        }
    ]
    (request,) = platform.sent
    assert (request.method, request.url.path, request.url.query) == ("POST", "/v1/vectors/upsert", b"wait=true")
    assert request.headers["idempotency-key"] == "k-1"
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        (Point(id="a"), "needs a vector or a text"),
        (Point(id="a", vector=[1.0], text="a"), "and not both"),
        (Point(text="a"), "needs an id"),
        ({"id": "a", "text": "a", "tags": []}, "no 'tags'"),
        (Point(id="a", text="a", expires_at=datetime(2026, 1, 1)), "time zone"),
        ({"id": "a", "text": "\ud800"}, "cannot be sent as JSON"),
    ],
)
def test_points_that_cannot_be_are_refused_before_anything_is_sent(
    point: Any, reason: str, platform: FakePlatform
) -> None:
    with platform.client() as fleet, pytest.raises(ValueError, match=reason):
        fleet.memory.upsert("posts", [point])
    assert platform.sent == []


def test_texts_are_remembered_in_parts_that_are_safe_to_repeat(platform: FakePlatform) -> None:
    platform.otherwise = ACCEPTED
    platform.script = [problem(503, "log_unavailable")]
    with platform.client() as fleet:
        ids = fleet.memory.remember("posts", (f"text {n}" for n in range(2_500)))
    assert len(set(ids)) == 2_500
    sizes = [len(body["points"]) for body in platform.bodies()]
    assert sizes == [1_000, 1_000, 1_000, 500]
    keys = [request.headers["idempotency-key"] for request in platform.sent]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    assert [point["id"] for body in platform.bodies()[1:] for point in body["points"]] == ids


def test_parts_are_bounded_in_bytes_too(platform: FakePlatform) -> None:
    platform.otherwise = ACCEPTED
    points = [Point(id=str(n), text="t", payload={"pad": "x" * 60_000}) for n in range(150)]
    with platform.client() as fleet:
        assert fleet.memory.remember("posts", points) == [str(n) for n in range(150)]
    assert len(platform.sent) == 3
    assert max(len(request.content) for request in platform.sent) <= PART_BYTES_MAX + 1_000


def test_remembering_waits_until_searches_find_it(platform: FakePlatform) -> None:
    states = [answer({"operation_id": "op-1", "status": status}) for status in ("accepted", "applied")]
    platform.script = [answer({**ACCEPTED, "status": "accepted"}, 202), *states]
    with platform.client() as fleet:
        assert fleet.memory.remember("posts", {"id": "a", "text": "Fog"}) == ["a"]
    assert [request.url.path for request in platform.sent[1:]] == ["/v1/operations/op-1"] * 2


def test_remembering_what_fails_is_a_fault(platform: FakePlatform) -> None:
    failed = {"operation_id": "op-1", "status": "failed", "error": "point 3 is too large"}
    platform.script = [answer({**ACCEPTED, "status": "accepted"}, 202), answer(failed)]
    with platform.client() as fleet, pytest.raises(FlotillaError, match="point 3 is too large") as raised:
        fleet.memory.remember("posts", "Fog")
    assert (raised.value.code, raised.value.status) == ("operation_failed", 502)


def test_remembering_without_waiting_asks_nothing_more(platform: FakePlatform) -> None:
    platform.script = [answer({**ACCEPTED, "status": "accepted"}, 202)]
    with platform.client() as fleet:
        fleet.memory.remember("posts", "Fog", wait=False)
    (request,) = platform.sent
    assert request.url.query == b""


def test_searches_send_what_was_given_and_nothing_else(platform: FakePlatform) -> None:
    hit = {"id": "a", "score": 0.5, "payload": {"n": 1}, "expires_at": "t", "of_a_newer_platform": True}
    platform.script = [
        answer({**SEARCH, "results": [hit], "warnings": ["another embedder"]}),
        answer({"results": [SEARCH, SEARCH]}),
    ]
    with platform.client() as fleet:
        found = fleet.memory.search("posts", text="fog", limit=3, filter={"must": []}, with_vector=False, after="op-1")
        both = fleet.memory.search_batch(
            [{"collection": "posts", "vector": array.array("d", [1.0])}, {"collection": "posts", "text": "a"}]
        )
    assert (found.results[0].id, found.results[0].score, found.warnings) == ("a", 0.5, ["another embedder"])
    assert found.results[0].model_extra == {"of_a_newer_platform": True}
    assert len(both) == 2
    assert platform.bodies() == [
        {
            "collection": "posts",
            "text": "fog",
            "limit": 3,
            "filter": {"must": []},
            "with_vector": False,
            "after": "op-1",
        },
        {"searches": [{"collection": "posts", "vector": [1.0]}, {"collection": "posts", "text": "a"}]},
    ]


def test_recalling_leaves_audit_notes_out(platform: FakePlatform) -> None:
    with platform.client() as fleet:
        fleet.memory.recall("fleet_notes", "fog", filter={"must_not": [{"is_empty": {"key": "a"}}]})
        fleet.memory.recall("posts", "fog")
    first, second = platform.bodies()
    assert len(first["filter"]["must_not"]) == 12
    assert {"key": "operation", "match": {"value": "handshake"}} in first["filter"]["must_not"]
    assert "filter" not in second


@pytest.mark.parametrize(
    "asked",
    [
        {"must": [{"key": "tags", "match": {"value": "auth"}}]},
        {"should": [{"must": [{"key": "tags", "match": {"any": ["a", "vector"]}}]}]},
        {"must": [{"key": "operation", "match": {"value": "upsert"}}]},
    ],
)
def test_a_filter_that_asks_for_audit_notes_gets_them(asked: dict[str, Any]) -> None:
    assert without_audit_notes("fleet_notes", asked) == asked


def test_scrolling_reads_page_by_page(platform: FakePlatform) -> None:
    points = [{"id": str(n), "payload": {}} for n in range(3)]
    platform.script = [
        answer({"points": points[:2], "next_offset": "2"}),
        answer({"points": points[2:], "next_offset": None}),
    ]
    with platform.client() as fleet:
        ids = [point.id for point in fleet.memory.scroll("posts", limit=2, order_by={"key": "updated_at"})]
    assert ids == ["0", "1", "2"]
    first, second = platform.bodies()
    assert first == {"collection": "posts", "limit": 2, "order_by": {"key": "updated_at"}}
    assert second == {**first, "offset": "2"}


async def test_scrolling_is_an_asynchronous_iterator_for_tasks(platform: FakePlatform) -> None:
    platform.otherwise = {"points": [{"id": "0", "payload": {}}], "next_offset": None}
    async with platform.async_client() as fleet:
        assert [point.id async for point in fleet.memory.scroll("posts")] == ["0"]


def test_reads_go_by_address_where_that_is_short_and_else_by_body(platform: FakePlatform) -> None:
    ids = [f"point-{n:06}" for n in range(1_000)]
    platform.otherwise = {"points": [], "missing": []}
    where = {"must": [{"key": "a", "match": {"value": "x&y=z"}}]}
    with platform.client() as fleet:
        fleet.memory.get_many("posts", ids[:2])
        fleet.memory.get_many("posts", ids)
        platform.otherwise = {"collection": "posts", "count": 4}
        assert fleet.memory.count("posts", filter=where) == 4
    short, long, count = platform.sent
    assert (short.method, short.url.query) == ("GET", b"collection=posts&ids=point-000000&ids=point-000001")
    assert (long.method, json.loads(long.content)) == ("POST", {"collection": "posts", "ids": ids})
    assert json.loads(count.url.params["filter"]) == where


def test_deleting_takes_ids_or_a_filter(platform: FakePlatform) -> None:
    platform.otherwise = {**ACCEPTED, "deleted": 7, "more": False}
    with platform.client() as fleet:
        assert fleet.memory.delete("posts", filter={"must": []}, wait=True).deleted == 7
        fleet.memory.delete("posts", ["a"])
        for wrong in ({}, {"ids": ["a"], "filter": {}}):
            with pytest.raises(ValueError, match="ids or a filter"):
                fleet.memory.delete("posts", **wrong)  # type: ignore[arg-type]
    assert platform.bodies() == [{"collection": "posts", "filter": {"must": []}}, {"collection": "posts", "ids": ["a"]}]
    assert [request.method for request in platform.sent] == ["DELETE", "DELETE"]


def test_a_collection_that_an_earlier_attempt_deleted_is_no_fault(platform: FakePlatform) -> None:
    gone = problem(404, "collection_not_found")
    platform.script = [problem(503, "overloaded"), gone, gone]
    with platform.client() as fleet:
        fleet.memory.collections.delete("posts")
        with pytest.raises(NotFound):
            fleet.memory.collections.delete("posts")


def test_names_are_one_part_of_a_path(platform: FakePlatform) -> None:
    platform.otherwise = {"operation_id": "a/b ?", "status": "applied"}
    with platform.client() as fleet:
        fleet.memory.operation("a/b ?")
        for name in ("", ".", ".."):
            with pytest.raises(ValueError, match="is no id"):
                fleet.memory.operation(name)
    assert platform.sent[0].url.raw_path == b"/v1/operations/a%2Fb%20%3F"
