"""Bodies are the same from both serialisers, and quickly made by each: processor time, compared within one run."""

from __future__ import annotations

import array
import gc
import json
import math
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic_core import to_json
from support import SEARCH, FakePlatform

from flotilla_client import Point, _json
from flotilla_client._json import json_of, point_json, upsert_json
from flotilla_client._memory_requests import SEARCH as SEARCH_REQUEST
from flotilla_client._points import point_fields

ACCEPTED = {"operation_id": "op-1", "status": "applied", "collection": "posts", "points": 1_000}


@pytest.fixture(params=["pydantic-core", "orjson"])
def serialise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], bytes]:
    """The serialiser that the client uses while the test runs."""
    if request.param == "orjson":
        dumps: Callable[[Any], bytes] = pytest.importorskip("orjson").dumps
        return dumps
    monkeypatch.setattr(_json, "orjson", None)
    return to_json


@pytest.mark.parametrize(
    "value",
    [
        {"größe": [None, True, 1, 1.5, 1e300, "\u2028\x00"]},
        {"many": 2**70, "keys": {1: 2, None: 3}},
        {"times": [datetime(2026, 1, 2, tzinfo=UTC)], "id": UUID(int=1), "set": {1}, "bytes": b"a"},
        [math.nan, math.inf, -math.inf],
        {"text": "null", "deep": {"nan": math.nan}},
    ],
)
def test_json_is_that_of_pydantic_core(value: Any, serialise: Callable[[Any], bytes]) -> None:
    assert json_of(value) == to_json(value)
    point = {"id": "a", "text": "b", "payload": {"value": value}}
    assert point_json(point) == to_json(point)
    assert upsert_json("posts", [point] * 2) == to_json({"collection": "posts", "points": [point] * 2})


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, object()])
def test_json_cannot_hold_everything(value: Any, serialise: Callable[[Any], bytes]) -> None:
    works: list[Callable[[], bytes]] = [
        lambda: json_of(value),
        lambda: point_json({"id": "a", "text": "b", "payload": {"value": value}}),
        lambda: upsert_json("posts", [{"id": "a", "text": value}]),
    ]
    for work in works:
        with pytest.raises(ValueError, match="cannot be sent as JSON"):
            work()


@pytest.mark.parametrize("vector", [[1, 2.5], (1, 2.5), array.array("f", [1, 2.5]), range(3)])
def test_vectors_are_lists_of_numbers(vector: Any, serialise: Callable[[Any], bytes]) -> None:
    point = point_fields(Point(id="a", vector=vector))
    assert json.loads(point_json(point)) == {"id": "a", "vector": list(vector)}
    assert json.loads(upsert_json("posts", [point]))["points"] == [{"id": "a", "vector": list(vector)}]


@pytest.mark.parametrize("form", ["<f4", ">f4", "<f8", "<f2", "<i8"])
def test_arrays_of_numpy_keep_their_numbers(form: str, serialise: Callable[[Any], bytes]) -> None:
    numpy = pytest.importorskip("numpy")
    rows = (numpy.random.default_rng(1).random((3, 1536)) * 100).astype(form)
    # A column of a matrix has its numbers apart, which orjson does not take.
    for vector in (*rows, numpy.ascontiguousarray(rows.T)[:, 0]):
        point = point_fields(Point(id="a", vector=vector, payload={"n": None}))
        for sent in (point_json(point), upsert_json("posts", [point])[len('{"collection":"posts","points":[') : -2]):
            read = json.loads(sent)
            assert read["payload"] == {"n": None}
            assert (numpy.array(read["vector"]).astype(form) == vector).all()


def test_arrays_of_numpy_are_no_values_of_a_payload(serialise: Callable[[Any], bytes]) -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(ValueError, match="cannot be sent as JSON"):
        upsert_json("posts", [{"id": "a", "text": "b", "payload": {"value": numpy.ones(2)}}])


def test_orjson_writes_the_numbers_of_float32_without_those_that_float64_adds() -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("orjson")
    vector = numpy.array([0.1, 0.2], dtype=numpy.float32)
    assert point_json({"id": "a", "vector": vector}) == b'{"id":"a","vector":[0.1,0.2]}'


def costs(*works: Callable[[], object]) -> list[float]:
    """The least time of the processor that each takes, in turns: other work on the machine costs all of them."""
    least = [float("inf")] * len(works)
    for _ in range(7):
        for at, work in enumerate(works):
            begun = time.thread_time()
            work()
            least[at] = min(least[at], time.thread_time() - begun)
    return least


def test_a_thousand_points_cost_little_more_than_their_serialisation(
    platform: FakePlatform, serialise: Callable[[Any], bytes]
) -> None:
    platform.otherwise = ACCEPTED
    numbers = [[random.random() for _ in range(1536)] for _ in range(1_000)]
    points = [Point(id=str(n), vector=vector, payload={"n": n}) for n, vector in enumerate(numbers)]
    plain = [{"id": point.id, "vector": point.vector, "payload": point.payload} for point in points]
    gc.collect()
    with platform.client() as fleet:
        fleet.api_key()

        def upsert() -> None:
            fleet.memory.upsert("posts", points)
            platform.sent.clear()

        bare, whole = costs(lambda: serialise({"collection": "posts", "points": plain}), upsert)
    assert whole <= 1.5 * bare


def test_reading_checked_answers_costs_no_more_than_reading_them_unchecked() -> None:
    hits = [{"id": str(n), "score": 0.5, "vector": [random.random() for _ in range(1536)]} for n in range(100)]
    answered = to_json({**SEARCH, "results": hits})
    checked, unchecked = costs(lambda: SEARCH_REQUEST.adapter.validate_json(answered), lambda: json.loads(answered))
    assert checked <= unchecked
