"""Speed of the client: its bodies compared with their serialisation, its calls with those of qdrant-client.

The argument is JSON: ``home``, ``agent_id``, ``vector_url``, ``qdrant_url`` and ``hnsw``. Prints one JSON document.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import httpx2
import numpy
import orjson
from pydantic_core import to_json
from qdrant_client import QdrantClient, models

from flotilla_client import Flotilla, Point, _json
from flotilla_client._json import upsert_json
from flotilla_client._points import point_fields

POINTS = 1_000
DIMENSION = 1_536
BODY_ROUNDS = 7
ROUNDS = 4
SEARCHES = 100
COLLECTION = "knowledgebase"
BARE = "bare"
WAIT_MAX = 120

Measured = dict[str, float]


def main() -> None:
    """Measures everything and prints it."""
    given = json.loads(sys.argv[1])
    source = random.Random(1)
    vectors = [[round(source.gauss(0, 1), 8) for _ in range(DIMENSION)] for _ in range(POINTS)]
    bodies = {
        "pydantic-core": measure_bodies(vectors, to_json, without_orjson=True),
        "orjson": measure_bodies(vectors, orjson.dumps),
        "numpy": measure_bodies(
            [numpy.array(vector, dtype=numpy.float32) for vector in vectors],
            lambda value: orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY),
        ),
    }
    say("bodies: " + ", ".join(f"{name} {one['ratio']:.2f}x" for name, one in bodies.items()))
    fleet = Flotilla(home=given["home"], agent_id=given["agent_id"], timeout=60)
    # Without compression, as the client of the other benches: qdrant-client asks for it by default.
    headers = {"accept-encoding": "identity"}
    bare = QdrantClient(url=given["qdrant_url"], timeout=60, headers=headers, check_compatibility=False)
    hnsw = models.HnswConfigDiff(m=given["hnsw"]["m"], ef_construct=given["hnsw"]["efConstruction"])
    size = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    bare.create_collection(BARE, vectors_config=size, hnsw_config=hnsw)
    with fleet:
        quiet = Quiet(given["vector_url"], bare)
        upserts = measure_upserts(fleet, bare, vectors, quiet)
        searches = measure_searches(fleet, bare, vectors, quiet)
    bare.close()
    print(json.dumps({"bodies": bodies, "upserts": upserts, "searches": searches}))


def measure_bodies(
    vectors: Sequence[Any], serialise: Callable[[Any], bytes], *, without_orjson: bool = False
) -> Measured:
    """Processor time in ms of a body by the client and of the serialiser alone: the least of several rounds."""
    points = [Point(id=f"point-{n}", vector=vector, payload={"n": n}) for n, vector in enumerate(vectors)]
    plain = [{"id": point.id, "vector": point.vector, "payload": point.payload} for point in points]
    works: dict[str, Callable[[], bytes]] = {
        "client": lambda: upsert_json(COLLECTION, [point_fields(point) for point in points]),
        "peer": lambda: serialise({"collection": COLLECTION, "points": plain}),
    }
    found = dict.fromkeys(works, float("inf"))
    installed = _json.orjson
    if without_orjson:
        _json.orjson = None  # type: ignore[assignment]
    try:
        for _ in range(BODY_ROUNDS):
            for name, work in works.items():
                gc.collect()
                begun = time.thread_time()
                work()
                found[name] = min(found[name], (time.thread_time() - begun) * 1_000)
    finally:
        _json.orjson = installed
    return {**found, "ratio": found["client"] / found["peer"], "bytes": len(works["client"]())}


def measure_upserts(fleet: Flotilla, bare: QdrantClient, vectors: list[list[float]], quiet: Quiet) -> Measured:
    """Time in ms of an upsert of new points that searches find; the points themselves are made before."""

    def make(at: int) -> dict[str, Callable[[], object]]:
        ids = range(at * POINTS, (at + 1) * POINTS)
        new = [vector[at:] + vector[:at] for vector in vectors]
        rows = list(zip(ids, new, strict=True))
        ours = [Point(id=f"point-{n}", vector=vector, payload=payload_of(n)) for n, vector in rows]
        theirs = [models.PointStruct(id=n, vector=vector, payload=payload_of(n)) for n, vector in rows]
        # The client repeats it where a machine that is busy makes the log miss its time.
        key = str(uuid4())
        return {
            "client": lambda: fleet.memory.upsert(COLLECTION, ours, wait=True, idempotency_key=key),
            "peer": lambda: bare.upsert(BARE, theirs, wait=True),
        }

    def took(work: Callable[[], object]) -> float:
        begun = time.perf_counter()
        work()
        return (time.perf_counter() - begun) * 1_000

    return in_turns("upsert", make, took, quiet)


def measure_searches(fleet: Flotilla, bare: QdrantClient, vectors: list[list[float]], quiet: Quiet) -> Measured:
    """The p95 in ms of searches by vector, one after the other."""
    queries = random.Random(2).sample(vectors, SEARCHES)
    works: dict[str, Callable[[list[float]], object]] = {
        "client": lambda vector: fleet.memory.search(COLLECTION, vector=vector, limit=10),
        "peer": lambda vector: bare.query_points(BARE, query=vector, limit=10, with_payload=True),
    }

    def p95(work: Callable[[list[float]], object]) -> float:
        times = []
        for query in queries:
            begun = time.perf_counter()
            work(query)
            times.append((time.perf_counter() - begun) * 1_000)
        return statistics.quantiles(times, n=20)[-1]

    return in_turns("search", lambda _: works, p95, quiet)


def in_turns(
    name: str,
    make: Callable[[int], dict[str, Callable[..., object]]],
    measure: Callable[[Callable[..., object]], float],
    quiet: Quiet,
) -> Measured:
    """Medians of both over rounds, and the median of the rounds' ratios; the first round warms both up."""
    rounds: list[Measured] = []
    for at in range(ROUNDS + 1):
        works = make(at)
        found = {}
        # Each is the first in every other round.
        for who in sorted(works, reverse=at % 2 == 1):
            quiet.wait()
            found[who] = measure(works[who])
        say(f"{name}, round {at}: client {found['client']:.1f} ms, qdrant-client {found['peer']:.1f} ms")
        if at > 0:
            rounds.append({**found, "ratio": found["client"] / found["peer"]})
    return {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}


class Quiet:
    """Waits for background work of earlier calls, so that no call pays for another."""

    def __init__(self, vector_url: str, bare: QdrantClient) -> None:
        self._metrics = f"{vector_url}/metrics"
        self._bare = bare

    def wait(self) -> None:
        """Returns when every consumer group has caught up and Qdrant has optimised its collections."""
        end = time.monotonic() + WAIT_MAX
        while time.monotonic() < end:
            if self._has_caught_up() and self._is_optimised():
                return
            time.sleep(0.25)
        raise TimeoutError("the platform or Qdrant is still at work")

    def _has_caught_up(self) -> bool:
        lines = httpx2.get(self._metrics, timeout=10).text.splitlines()
        return all(line.endswith(" 0") for line in lines if line.startswith("flotilla_consumer_lag_records{"))

    def _is_optimised(self) -> bool:
        names = [one.name for one in self._bare.get_collections().collections]
        return all(self._bare.get_collection(name).status == models.CollectionStatus.GREEN for name in names)


def payload_of(number: int) -> dict[str, Any]:
    """A small payload."""
    return {"title": f"Point {number}", "status": "active", "tags": ["bench"], "mind_path": f"bench/{number}.md"}


def say(text: str) -> None:
    """Reports progress."""
    print(f"  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
