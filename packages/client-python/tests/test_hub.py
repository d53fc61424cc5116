"""Notes, goals, agents, sessions and events, as they travel."""

from __future__ import annotations

import json

import pytest
from support import FakePlatform, answer, problem
from test_retries import NOTE, RUN

from flotilla_client import FlotillaError, Invalid, PreconditionFailed
from flotilla_client.hub import next_of

GOAL = {
    **{"id": 2, "title": "t", "description": "", "priority": "high", "status": "pending", "author": "a"},
    **{"created_at": "c", "updated_at": "u"},
}


def test_a_note_is_changed_only_as_it_was_read(platform: FakePlatform) -> None:
    platform.script = [answer(NOTE, etag='"1"'), problem(412, "precondition_failed")]
    with platform.client() as fleet:
        note = fleet.notes.get(1)
        assert (note.etag, note.parent_id) == ('"1"', None)
        with pytest.raises(PreconditionFailed):
            fleet.notes.update(note.id, status="resolved", if_match=note.etag)
    change = platform.sent[1]
    assert (change.method, change.url.path, change.headers["if-match"]) == ("PATCH", "/fleet_notes/1", '"1"')
    assert json.loads(change.content) == {"status": "resolved"}


def test_lists_go_on_by_their_link(platform: FakePlatform) -> None:
    link = '</goals?limit=1&cursor=a%2Bb>; rel="next"'
    platform.script = [answer([GOAL], link=link), answer([{**GOAL, "id": 3}]), answer([GOAL], link=link)]
    with platform.client() as fleet:
        assert [goal.id for goal in fleet.goals.all(status="pending")] == [2, 3]
        page = fleet.goals.list(limit=1)
    assert (len(page.items), page.next) == (1, "a+b")
    queries = [request.url.query for request in platform.sent]
    assert queries == [b"status=pending", b"status=pending&cursor=a%2Bb", b"limit=1"]


@pytest.mark.parametrize(
    ("link", "cursor"),
    [
        (None, None),
        ("", None),
        ('</a?cursor=x>; rel="prev"', None),
        ('</a?cursor=x>; rel="prev", </a?cursor=y>; rel="next"', "y"),
        ('</a?limit=2>; rel="next"', None),
    ],
)
def test_the_cursor_is_that_of_the_next_page(link: str | None, cursor: str | None) -> None:
    assert next_of(link) == cursor


def test_faulty_fields_are_named(platform: FakePlatform) -> None:
    errors = [{"path": "/subject", "message": "must not be empty"}]
    platform.script = [problem(422, "validation_failed", errors=errors, earliest="0:1")]
    with platform.client() as fleet, pytest.raises(Invalid) as raised:
        fleet.notes.create("", "b")
    fault = raised.value
    assert str(fault) == "validation_failed: says validation_failed; /subject: must not be empty"
    assert (fault.errors[0].path, fault.request_id, fault.members["earliest"]) == ("/subject", "r-1", "0:1")


def test_runs_are_started_and_listed(platform: FakePlatform) -> None:
    platform.script = [answer(RUN, 202), answer([RUN])]
    with platform.client() as fleet:
        run = fleet.runs.start("Atlas", [{"text": "Read it."}], user_id="u", metadata={"ticket": "7"}, on_busy="reject")
        page = fleet.runs.list(agent="atlas", metadata={"ticket": "7"}, limit=5)
    assert (run.run_id, run.last_event_id, page.next) == ("run_1", 0, None)
    start, listed = platform.sent
    assert (start.url.path, start.headers["prefer"]) == ("/atlas/run", "respond-async")
    assert json.loads(start.content) == {
        "appName": "Atlas",
        "newMessage": {"role": "user", "parts": [{"text": "Read it."}]},
        "userId": "u",
        "onBusy": "reject",
        "metadata": {"ticket": "7"},
    }
    assert listed.url.query == b"agent=atlas&limit=5&metadata.ticket=7"


def test_an_option_that_a_message_has_not_is_refused(platform: FakePlatform) -> None:
    with platform.client() as fleet, pytest.raises(TypeError, match="no option 'user'"):
        fleet.runs.start("atlas", "Who?", user="u")  # type: ignore[call-arg]
    assert platform.sent == []


def test_events_are_fired_without_a_key_and_at_one_time(platform: FakePlatform) -> None:
    platform.otherwise = {"idempotency_key": "k", "deliveries": [{"target": "t", "sequence": 3}]}
    platform.script = [problem(503, "log_unavailable")]
    with platform.client() as fleet:
        fired = fleet.webhooks.fire("task.completed", agent="whale", task_id="1", targets=["a", "b"])
        fleet.webhooks.fire("task.failed", agent="whale", task_id="1", ts=7, targets=[])
    assert (fired.deliveries[0].target, fired.deliveries[0].sequence) == ("t", 3)
    first, again, last = platform.sent
    assert first.content == again.content
    assert first.url.query == b"targets=a&targets=b"
    assert last.url.query == b"targets="
    assert json.loads(last.content) == {
        **{"event": "task.failed", "agent": "whale", "task_id": "1", "result": {}, "ts": 7}
    }
    assert all("authorization" not in request.headers for request in platform.sent)
    assert platform.handshakes == 0


def test_any_route_of_the_main_api_may_be_called(platform: FakePlatform) -> None:
    platform.script = [problem(503, "overloaded"), answer({"ok": True, "data": {"a": 1}}), problem(503, "overloaded")]
    with platform.client(id_token="t") as fleet:
        assert fleet.main.request("GET", "/log/groups", query={"all": True, "names": ["a", "b"]}) == {"a": 1}
        with pytest.raises(FlotillaError):
            fleet.main.request("POST", "agents", body={"agent_id": "x"})
    assert platform.sent[0].url.raw_path == b"/api/v1/log/groups?all=true&names=a&names=b"
    assert json.loads(platform.sent[2].content) == {"agent_id": "x"}
    assert len(platform.sent) == 3
