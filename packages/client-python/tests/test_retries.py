"""Which calls are repeated, for how long and after which waits. The cases are shared with the client in TypeScript."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support import SEARCH, Clock, FakePlatform, answer, html, problem

from flotilla_client import AsyncFlotilla, Flotilla, FlotillaError, NoAnswer, RateLimited, Unavailable

CASES_FILE = Path(__file__).parents[2] / "client" / "test" / "retry-cases.json"
CASES: list[dict[str, Any]] = json.loads(CASES_FILE.read_text())["cases"]

VECTOR = [1.0]
POINT = {"id": "p", "vector": VECTOR}
NOTE = {
    **{"id": 1, "subject": "s", "body": "b", "priority": "normal", "status": "active", "thread_id": "t"},
    **{"parent_id": None, "author": "whale", "created_at": "c", "updated_at": "u"},
}
ACCEPTED = {"operation_id": "o", "status": "accepted", "collection": "posts", "points": 1, "unknown": 0}
RUN: dict[str, Any] = {
    **{"runId": "run_1", "appName": "ATLAS", "userId": "u", "sessionId": "s", "status": "canceled", "trigger": "api"},
    **{"parentRunId": None, "rootRunId": "run_1", "goalId": None, "depth": 0, "attempt": 1, "error": None},
    **{"joined": [], "skipped": [], "metadata": {}, "question": None, "createdAt": "c", "startedAt": None},
    **{"endedAt": None, "cancelRequestedAt": None, "lastEventId": 0, "message": None},
}
COUNTS = dict.fromkeys(("total", "queued", "running", "input_required", "completed", "failed", "canceled"), 0)
DISPATCH = {
    **{"goalId": 1, "userId": "u", "sessionId": "s", "status": "running", "counts": COUNTS, "deadline": "d"},
    **{"runs": [], "result": None},
}
PASS = {"status": "pass", "latency_ms": 1}
COMPONENTS = ("proxy", "api", "vector_engine", "relational_engine", "event_log")

# Calls by the names of the cases: the answer of a success, and the call of either client.
CALLS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "search": (SEARCH, lambda fleet: fleet.memory.search("posts", vector=VECTOR)),
    "scroll": ({"points": [], "next_offset": None}, lambda fleet: fleet.memory.scroll_page("posts")),
    "count": ({"collection": "posts", "count": 1}, lambda fleet: fleet.memory.count("posts")),
    "get": ({**POINT, "payload": {}}, lambda fleet: fleet.memory.get("posts", "p")),
    "delete": (ACCEPTED, lambda fleet: fleet.memory.delete("posts", ["p"])),
    "setPayload": (ACCEPTED, lambda fleet: fleet.memory.set_payload("posts", ["p"], {"a": 1})),
    "embeddings": (
        {"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}},
        lambda fleet: fleet.memory.embeddings("a"),
    ),
    "health": ({"status": "pass", "components": dict.fromkeys(COMPONENTS, PASS)}, lambda fleet: fleet.health()),
    "upsert": (ACCEPTED, lambda fleet: fleet.memory.upsert("posts", [POINT])),
    "upsert with a key": (ACCEPTED, lambda fleet: fleet.memory.upsert("posts", [POINT], idempotency_key="k")),
    "create a note": (NOTE, lambda fleet: fleet.notes.create("s", "b")),
    "create a note with a key": (NOTE, lambda fleet: fleet.notes.create("s", "b", idempotency_key="k")),
    "change a note": (NOTE, lambda fleet: fleet.notes.update(1, subject="s")),
    "dispatch": (DISPATCH, lambda fleet: fleet.runs.dispatch("Who?")),
    "cancel a run": (RUN, lambda fleet: fleet.runs.cancel("run_1")),
    "delete a session": (
        {"sessionId": "s", "userId": "u", "deleted": True},
        lambda fleet: fleet.runs.sessions.delete("s"),
    ),
    "fire": (
        {"idempotency_key": "k", "deliveries": []},
        lambda fleet: fleet.webhooks.fire("task.completed", agent="whale", task_id="1"),
    ),
}


def scripted(text: str, success: Any) -> httpx2.Response | Exception:
    if text == "no answer":
        return httpx2.ConnectError("refused")
    if text == "timeout":
        return httpx2.ReadTimeout("slow")
    if text == "200":
        return answer(success)
    status, code = text.split(" ")
    return html(int(status)) if code == "html" else problem(int(status), code)


def described(case: dict[str, Any]) -> str:
    return f"{case['call']}: {', '.join(case['answers'])}"


def prepared(platform: FakePlatform, case: dict[str, Any]) -> Callable[[Any], Any]:
    success, call = CALLS[case["call"]]
    platform.script = [scripted(text, success) for text in case["answers"]]
    return call


@pytest.mark.parametrize("case", CASES, ids=described)
def test_the_blocking_client_repeats_what_the_cases_say(
    case: dict[str, Any], platform: FakePlatform, clock: Clock
) -> None:
    call = prepared(platform, case)
    with platform.client() as fleet:
        code = None
        try:
            call(fleet)
        except FlotillaError as error:
            code = error.code
    assert (code, len(platform.sent)) == (case["code"], case["sent"])


@pytest.mark.parametrize("case", CASES, ids=described)
async def test_the_asyncio_client_repeats_what_the_cases_say(
    case: dict[str, Any], platform: FakePlatform, clock: Clock
) -> None:
    call: Callable[[AsyncFlotilla], Awaitable[Any]] = prepared(platform, case)
    async with platform.async_client() as fleet:
        code = None
        try:
            await call(fleet)
        except FlotillaError as error:
            code = error.code
    assert (code, len(platform.sent)) == (case["code"], case["sent"])


def search(fleet: Flotilla) -> None:
    fleet.memory.search("posts", vector=VECTOR)


def test_it_repeats_for_twenty_seconds_after_the_first_fault(platform: FakePlatform, clock: Clock) -> None:
    platform.script = [httpx2.ConnectError("refused")] * 1000
    begun = clock.now()
    with platform.client() as fleet, pytest.raises(NoAnswer) as raised:
        search(fleet)
    assert 16 < clock.now() - begun <= 20
    assert raised.value.attempts == len(platform.sent) > 4
    assert max(clock.slept) <= 2


def test_a_platform_that_is_back_within_that_time_is_no_fault(platform: FakePlatform, clock: Clock) -> None:
    back = clock.now() + 12

    def away(_: httpx2.Request) -> httpx2.Response:
        if clock.now() < back:
            raise httpx2.ConnectError("refused")
        return answer(SEARCH)

    platform.script = [away] * 1000
    with platform.client() as fleet:
        search(fleet)
    assert clock.now() >= back


def test_a_number_of_attempts_bounds_it_too(platform: FakePlatform, clock: Clock) -> None:
    platform.script = [problem(503, "overloaded")] * 10
    with platform.client(attempts_max=3) as fleet, pytest.raises(Unavailable):
        search(fleet)
    assert len(platform.sent) == 3


def test_the_wait_of_the_server_is_kept_to(platform: FakePlatform, clock: Clock) -> None:
    platform.script = [problem(429, "rate_limited", retryAfter=3), httpx2.Response(503, headers={"retry-after": "2"})]
    with platform.client() as fleet:
        search(fleet)
    first, second = clock.slept
    assert 3 <= first <= 3.1
    assert 2 <= second <= 2.1


def test_a_wait_beyond_the_bound_is_raised_and_named(platform: FakePlatform, clock: Clock) -> None:
    platform.script = [problem(429, "rate_limited", retryAfter=11)]
    with platform.client() as fleet, pytest.raises(RateLimited) as raised:
        search(fleet)
    assert raised.value.retry_after == 11
    assert clock.slept == []


def test_limits_are_waited_out_where_that_is_asked_for(platform: FakePlatform, clock: Clock) -> None:
    platform.script = [problem(429, "quota_exceeded", retryAfter=50)] * 3
    with platform.client(wait_out_limits=120) as fleet, pytest.raises(RateLimited):
        search(fleet)
    # Twice fifty seconds; a third would be more than was asked for.
    assert len(platform.sent) == 3
    assert 100 <= sum(clock.slept) <= 101


def test_other_limits_share_connections_and_credentials(platform: FakePlatform, clock: Clock) -> None:
    platform.script = [answer(SEARCH), problem(503, "overloaded"), problem(503, "overloaded")]
    with platform.client() as fleet:
        search(fleet)
        with pytest.raises(Unavailable):
            search(fleet.with_options(attempts_max=1))
        search(fleet)
    assert platform.handshakes == 1
    assert len(platform.sent) == 4


def test_the_trace_of_the_caller_is_carried_where_it_has_one(
    platform: FakePlatform, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform.client() as fleet:
        search(fleet)
        tracing = types.SimpleNamespace(inject=lambda headers: headers.update(traceparent="00-1-2-01"))
        monkeypatch.setitem(sys.modules, "opentelemetry.propagate", tracing)
        search(fleet)
    assert [request.headers.get("traceparent") for request in platform.sent] == [None, "00-1-2-01"]


def test_the_page_of_a_proxy_is_a_fault_with_its_status(platform: FakePlatform, clock: Clock) -> None:
    platform.script = [html(502)] * 2
    with platform.client(attempts_max=2) as fleet, pytest.raises(FlotillaError) as raised:
        search(fleet)
    assert (raised.value.code, raised.value.status) == ("http_502", 502)
    assert "html" not in str(raised.value)


def test_a_success_that_is_no_answer_of_the_platform_is_a_fault(platform: FakePlatform, clock: Clock) -> None:
    platform.script = [html(200), answer({"results": "none"})]
    with platform.client() as fleet:
        for _ in range(2):
            with pytest.raises(FlotillaError, match="invalid_answer"):
                search(fleet)
    assert len(platform.sent) == 2


def test_health_that_fails_is_an_answer(platform: FakePlatform, clock: Clock) -> None:
    platform.script = [answer({"status": "fail", "components": dict.fromkeys(COMPONENTS, PASS)}, 503), html(503)]
    with platform.client(attempts_max=1) as fleet:
        assert fleet.health().status == "fail"
        with pytest.raises(Unavailable):
            fleet.health()
