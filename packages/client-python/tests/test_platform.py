"""An agent at work on a running platform, by both clients, and every example of the package's README."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from conftest import PLATFORM_HOME

from flotilla_client import (
    AsyncFlotilla,
    Conflict,
    Flotilla,
    FlotillaError,
    Invalid,
    NotFound,
    Point,
    PreconditionFailed,
    TopicRecord,
)

pytestmark = pytest.mark.platform

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.fixture
def fleet() -> Iterator[Flotilla]:
    with Flotilla(agent_id="rover", wait_out_limits=10) as made:
        yield made


@pytest.fixture
def collection(fleet: Flotilla) -> str:
    name = f"python-{uuid4().hex[:8]}"
    fleet.memory.collections.create(name, description="Of a test")
    return name


def test_points_and_texts_are_found_changed_and_deleted(fleet: Flotilla, collection: str) -> None:
    vector = [0.0] * 1535 + [1.0]
    written = fleet.memory.upsert(
        collection,
        [
            Point(id="a", vector=vector, payload={"kind": "axis", "n": 1}),
            Point(id="b", text="Fog until noon", expires_at=datetime.now(UTC) + timedelta(hours=1)),
        ],
    )
    assert fleet.memory.count(collection, after=written.operation_id) == 2
    found = fleet.memory.search(collection, vector=vector, limit=1, with_vector=True)
    assert (found.results[0].id, round(found.results[0].score, 3)) == ("a", 1)
    assert found.results[0].vector == vector
    assert fleet.memory.wait_for(written).status == "applied"
    changed = fleet.memory.set_payload(collection, ["a", "none"], {"n": 2}, remove=["kind"], wait=True)
    assert changed.unknown == 1
    assert fleet.memory.get(collection, "a").payload == {"n": 2}
    many = fleet.memory.get_many(collection, ["b", "none"])
    assert ([point.id for point in many.points], many.missing) == (["b"], ["none"])
    assert many.points[0].expires_at is not None
    only = {"must": [{"key": "n", "range": {"gte": 2}}]}
    assert fleet.memory.delete(collection, filter=only, wait=True).deleted == 1
    assert [point.id for point in fleet.memory.scroll(collection)] == ["b"]
    with pytest.raises(NotFound) as raised:
        fleet.memory.get(collection, "a")
    assert raised.value.code == "point_not_found"
    with pytest.raises(Invalid) as refused:
        fleet.memory.upsert(collection, [Point(id="c", vector=[1.0])])
    assert "vector" in refused.value.errors[0].path


def test_texts_are_remembered_and_recalled(fleet: Flotilla, collection: str) -> None:
    ids = fleet.memory.remember(collection, [f"The ferry number {n} leaves at {n % 24}" for n in range(200)])
    found = fleet.memory.recall(collection, "ferry number 17", limit=3)
    assert found.results[0].id in ids
    several = fleet.memory.search_batch([{"collection": collection, "text": "ferry", "limit": n} for n in (1, 2)])
    assert [len(one.results) for one in several] == [1, 2]
    assert sorted(point.id for point in fleet.memory.scroll(collection, limit=64)) == sorted(ids)
    assert collection in [one.name for one in fleet.memory.collections.list()]
    with pytest.raises(Conflict) as raised:
        fleet.memory.collections.create(collection)
    assert (raised.value.code, raised.value.attempts) == ("collection_exists", 1)
    fleet.memory.collections.index(collection, "text", "text")
    assert len(fleet.memory.embeddings(["a", "b"]).data) == 2


def test_notes_and_goals_are_kept_by_version(fleet: Flotilla) -> None:
    note = fleet.notes.create("Lamp", "It is broken.", priority="high", idempotency_key=f"k-{uuid4()}")
    reply = fleet.notes.create("Re: Lamp", "Repaired.", parent_id=note.id)
    assert [one.id for one in fleet.notes.thread(note.id).items] == [note.id, reply.id]
    changed = fleet.notes.update(note.id, status="resolved", if_match=note.etag)
    assert changed.etag != note.etag
    with pytest.raises(PreconditionFailed):
        fleet.notes.update(note.id, subject="Old", if_match=note.etag)
    assert fleet.notes.get(note.id).status == "resolved"
    goal = fleet.goals.create("See the lamp", description="Soon")
    assert goal.id in [one.id for one in fleet.goals.all(status="pending")]
    assert fleet.goals.update(goal.id, status="canceled").status == "canceled"
    first = fleet.notes.list(limit=1)
    second = fleet.notes.list(limit=1, cursor=first.next)
    assert first.items[0].id != second.items[0].id


def test_changes_of_notes_are_given_as_they_come(fleet: Flotilla) -> None:
    with fleet.notes.events() as events:
        assert next(events).kind == "ready"
        note = fleet.notes.create("Seen", "b")
        change = next(events)
    assert change.record is not None
    assert (change.kind, change.record.id) == ("change", note.id)


def test_agents_answer_in_sessions(fleet: Flotilla) -> None:
    assert "atlas" in [agent.slug for agent in fleet.agents.list()]
    assert fleet.agents.get("ATLAS").codename == "ATLAS"
    answer = fleet.runs.run("atlas", "When is the lighthouse repaired?", metadata={"ticket": "7"})
    assert answer.run.status == "completed"
    assert answer.text
    with fleet.runs.stream("atlas", "Who?", session_id=answer.run.session_id) as run:
        said = [event.text for event in run]
    assert run.result is not None
    assert (run.result.status, run.session_id) == ("completed", answer.run.session_id)
    again = fleet.runs.resume(run.run_id)
    assert [event.text for event in again] == [text for text in said if text]
    assert fleet.runs.get(run.run_id).message == "Who?"
    assert next(fleet.runs.all(metadata={"ticket": "7"})).run_id == answer.run.run_id
    session = answer.run.session_id
    assert [event.author for event in fleet.runs.sessions.events(session).items[:2]] == ["user", "ATLAS"]
    with fleet.runs.sessions.follow(session) as followed:
        assert next(followed)[1].author == "user"
    assert fleet.runs.sessions.delete(session).deleted
    with pytest.raises(NotFound):
        fleet.runs.sessions.events(session)


def test_a_message_under_one_key_is_one_run(fleet: Flotilla) -> None:
    key = str(uuid4())
    first, second = (fleet.runs.start("pulse", "How are you?", idempotency_key=key) for _ in range(2))
    assert first.run_id == second.run_id
    assert fleet.runs.cancel(first.run_id).run_id == first.run_id
    with pytest.raises(Conflict):
        fleet.runs.input(first.run_id, "yes")


def test_a_dispatch_reaches_every_agent(fleet: Flotilla) -> None:
    dispatch = fleet.runs.dispatch("What do you know about the lighthouse?")
    stream = fleet.runs.dispatches.stream(dispatch.goal_id)
    authors = {event.author for event in stream}
    assert (stream.goal_id, stream.run_id) == (dispatch.goal_id, "")
    assert {"ATLAS", "WHALE"} <= authors
    assert stream.result is not None
    assert stream.result.status in ("completed", "partial")
    assert fleet.runs.dispatches.get(dispatch.goal_id).counts.total == stream.result.counts.total


def test_a_schedule_fires_and_its_run_is_found(fleet: Flotilla) -> None:
    at = datetime.now(UTC) + timedelta(seconds=2)
    made = fleet.schedules.create(agent="ATLAS", message="Any news?", at=at, session=f"clock-{uuid4().hex[:8]}")
    assert (made.agent, made.owner, made.paused) == ("ATLAS", "rover", False)
    assert made.id in [one.id for one in fleet.schedules.list().items]
    for _ in range(300):
        fired = fleet.schedules.runs(made.id).items
        if fired and fired[0].status == "completed":
            break
        time.sleep(0.1)
    assert [one.status for one in fired] == ["completed"]
    assert fleet.runs.get(fired[0].run_id or "").session_id == made.session
    daily = fleet.schedules.update(made.id, at=None, cron="0 7 * * *", timezone="Europe/Berlin", paused=True)
    assert (daily.cron, daily.at, daily.next_at, daily.paused) == ("0 7 * * *", None, None, True)
    with pytest.raises(ValueError, match="time zone"):
        fleet.schedules.update(made.id, ends_at=datetime(2030, 1, 1))
    assert fleet.schedules.delete(made.id).deleted
    with pytest.raises(NotFound):
        fleet.schedules.get(made.id)


def test_events_are_fired_and_state_is_shown(fleet: Flotilla) -> None:
    fired = fleet.webhooks.fire("task.completed", agent="rover", task_id="t-1", result={"pages": 3})
    assert fired.idempotency_key == "rover-t-1-task.completed"
    with pytest.raises(FlotillaError, match="unknown_target"):
        fleet.webhooks.fire("task.completed", agent="rover", task_id="t-1", targets=["nobody"])
    assert fleet.health().status in ("pass", "degraded")
    assert fleet.debug_agent().agent_id == "rover"
    assert "knowledgebase" in [one.collection for one in fleet.stats().collections]


@pytest.fixture
def agent_key() -> str:
    return (Path(str(PLATFORM_HOME)) / "rover-agent-key").read_text()


async def test_an_agent_key_opens_the_main_api_and_the_log(agent_key: str) -> None:
    async with AsyncFlotilla(agent_key=agent_key) as fleet:
        me = await fleet.main.me()
        assert (me.slug, me.kind) == ("rover", "agent")
        assert (await fleet.main.brain_state()).as_of
        note = await fleet.notes.create("By the main API's token", "b")
        present: list[TopicRecord] = []
        while note.id not in [record.value["id"] for record in present]:  # It reaches the log a moment later.
            await asyncio.sleep(0.1)
            present = [record async for record in fleet.records("hub.records", follow=False)]
        following = fleet.records("hub.records", present[-1].position)
        # The pages name only the partitions that were read, so others come from their beginning.
        known = {(record.partition, record.offset) for record in present}
        task = asyncio.ensure_future(anext(following))
        await fleet.notes.create("Another", "b")
        record = await asyncio.wait_for(task, 20)
        assert (record.partition, record.offset) not in known
        await following.aclose()


async def test_fifty_tasks_work_side_by_side(collection: str) -> None:
    async with AsyncFlotilla(agent_id="rover", wait_out_limits=30) as fleet:
        await asyncio.gather(*(fleet.memory.remember(collection, f"text {n}", wait=False) for n in range(50)))
        last = await fleet.memory.upsert(collection, [{"id": "last", "text": "last"}])
        await fleet.memory.wait_for(last)
        while await fleet.memory.count(collection) < 51:
            await asyncio.sleep(0.1)


def run_example(number: int, folder: Path) -> str:
    environ = {**os.environ, "FLOTILLA_AGENT_ID": "rover"}
    command = [sys.executable, "-c", EXAMPLES[number]]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_program_has_at_most_ten_lines_and_finds_the_text(tmp_path: Path) -> None:
    assert len(EXAMPLES[0].strip().splitlines()) <= 10
    assert run_example(0, tmp_path) == "The ferry leaves at nine\n"


def test_the_agent_has_at_most_25_lines_and_prints_what_atlas_says(tmp_path: Path) -> None:
    assert len(EXAMPLES[1].strip().splitlines()) <= 25
    assert len(run_example(1, tmp_path)) > 20


def test_the_example_for_asyncio_finds_the_point(tmp_path: Path) -> None:
    assert "Fog until noon" in run_example(2, tmp_path)
    assert len(EXAMPLES) == 4  # The last one serves until it is ended; test_webhooks.py runs it.
