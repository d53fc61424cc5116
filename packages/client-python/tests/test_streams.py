"""Streams that are cut go on behind the last event, each event once. Over real sockets, for both clients."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from raw_server import Connection, Heard, begin_stream, raw_server, send_event, send_json
from test_retries import RUN

from flotilla_client import AsyncFlotilla, Flotilla, FlotillaError, NoAnswer, RunFailed
from flotilla_client import _sse as sse
from flotilla_client._sse import EventReader


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "PAUSE", 0.02)


def said(text: str, partial: bool = False) -> str:
    event = {"id": text, "author": "ATLAS", "invocationId": "run_1", "timestamp": 1.5}
    return json.dumps({**event, "content": {"parts": [{"text": text}]}, "partial": partial})


def outcome(**changes: Any) -> str:
    event = {"id": "end", "author": "gateway", "invocationId": "run_1", "timestamp": 2}
    return json.dumps({**event, "customMetadata": {"run": {**RUN, "status": "completed", **changes}}})


Script = list[Callable[[Heard, Connection], None]]


def playing(script: Script) -> Callable[[Heard, Connection], None]:
    """Each connection plays the next part; behind the last one the end of the run."""

    def handle(heard: Heard, connection: Connection) -> None:
        part = script.pop(0) if script else ends
        part(heard, connection)

    return handle


def ends(_: Heard, connection: Connection) -> None:
    begin_stream(connection)
    send_event(connection, outcome())


def begins(heard: Heard, connection: Connection) -> None:
    assert heard.line == "POST /atlas/run HTTP/1.1"
    begin_stream(connection, x_run_id="run_1", x_session_id="s1")
    connection.sendall(b": heartbeat\n\n")
    send_event(connection, said("wo", partial=True))
    send_event(connection, said("word"), id="1")


def goes_on(heard: Heard, connection: Connection) -> None:
    assert heard.line == "GET /runs/run_1/events HTTP/1.1"
    assert heard.headers["last-event-id"] == "1"
    begin_stream(connection)
    send_event(connection, said("word"), id="1")  # Given out before.
    send_event(connection, said("second"), id="2")
    connection.sendall(b"id: 3\ndata: {")  # Cut within an event.


def away(_: Heard, connection: Connection) -> None:
    send_json(connection, b"<html>", "502 Bad Gateway", "text/html")


def shuts_down(heard: Heard, connection: Connection) -> None:
    assert heard.headers["last-event-id"] == "2"
    begin_stream(connection)
    send_event(connection, '{"code":"shutting_down"}', event="end")


def test_a_stream_that_is_cut_gives_each_event_once() -> None:
    with raw_server(playing([begins, goes_on, away, shuts_down, ends])) as server:
        with Flotilla(run_url=server.url, api_key="k") as fleet, fleet.runs.stream("ATLAS", "Who?") as run:
            texts = [event.text for event in run]
            assert (run.run_id, run.session_id, run.last_event_id) == ("run_1", "s1", 2)
            assert run.result is not None
            assert run.result.status == "completed"
            assert list(run) == []
    assert texts == ["wo", "word", "second"]
    sent = json.loads(server.heard[0].body)
    assert sent == {
        "appName": "ATLAS",
        "newMessage": {"role": "user", "parts": [{"text": "Who?"}]},
        "streaming": True,
    }
    assert len(server.heard[0].headers["idempotency-key"]) == 36


async def test_a_stream_that_is_cut_gives_tasks_each_event_once() -> None:
    with raw_server(playing([begins, goes_on, away, shuts_down, ends])) as server:
        async with AsyncFlotilla(run_url=server.url, api_key="k") as fleet:
            async with fleet.runs.stream("atlas", "Who?") as run:
                texts = [event.text async for event in run]
            assert run.result is not None
    assert texts == ["wo", "word", "second"]


def breaks_before_the_answer(_: Heard, connection: Connection) -> None:
    connection.close()


def test_a_message_without_an_answer_is_sent_again_under_its_key() -> None:
    with raw_server(playing([breaks_before_the_answer, begins])) as server:
        with Flotilla(run_url=server.url, api_key="k") as fleet:
            assert fleet.runs.run("atlas", "Who?").text == "word"
    first, second, _ = server.heard
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_leaving_a_stream_closes_its_connection_and_cancels_nothing() -> None:
    hung_up = threading.Event()

    def begins_and_waits(heard: Heard, connection: Connection) -> None:
        begins(heard, connection)
        connection.settimeout(5)
        # Closing with an event unread resets the connection.
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        hung_up.set()

    with raw_server(begins_and_waits) as server, Flotilla(run_url=server.url, api_key="k") as fleet:
        with fleet.runs.stream("atlas", "Who?") as run:
            assert next(run).text == "wo"
            assert not hung_up.is_set()
        assert hung_up.wait(4)
        assert run.result is None
    assert len(server.heard) == 1


def test_a_run_that_has_ended_is_read_where_its_events_were_read_before() -> None:
    def nothing_left(heard: Heard, connection: Connection) -> None:
        connection.sendall(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")

    def shows(heard: Heard, connection: Connection) -> None:
        assert heard.line == "GET /runs/run_1 HTTP/1.1"
        send_json(connection, json.dumps({**RUN, "status": "completed"}).encode())

    with raw_server(playing([nothing_left, shows])) as server, Flotilla(run_url=server.url, api_key="k") as fleet:
        run = fleet.runs.resume("run_1", after=7)
        assert list(run) == []
        assert run.result is not None
        assert server.heard[0].headers["last-event-id"] == "7"


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"status": "failed", "error": {"code": "node_lost", "message": "m", "retryable": True}}, "node_lost", 502),
        (
            {"status": "failed", "error": {"code": "run_timeout", "message": "m", "retryable": False}},
            "run_timeout",
            504,
        ),
        ({"status": "canceled"}, "run_canceled", 409),
    ],
)
def test_a_run_without_success_is_a_fault_with_its_own_code(changes: Any, code: str, status: int) -> None:
    def fails(_: Heard, connection: Connection) -> None:
        begin_stream(connection, x_run_id="run_1")
        send_event(connection, outcome(**changes))

    with raw_server(fails) as server, Flotilla(run_url=server.url, api_key="k") as fleet:
        with pytest.raises(RunFailed, match="run_1") as raised:
            fleet.runs.run("atlas", "Who?")
        with fleet.runs.stream("atlas", "Who?") as run:
            assert list(run) == []
            assert run.result is not None
            assert run.result.status == changes["status"]
    assert (raised.value.code, raised.value.status, raised.value.run.run_id) == (code, status, "run_1")


def test_an_answer_continues_a_run_behind_its_question() -> None:
    def takes_the_answer(heard: Heard, connection: Connection) -> None:
        assert heard.line == "POST /runs/run_1/input HTTP/1.1"
        assert json.loads(heard.body) == {"message": "yes"}
        assert heard.headers["prefer"] == "respond-async"
        send_json(connection, json.dumps({**RUN, "status": "queued", "lastEventId": 4}).encode(), "202 Accepted")

    def continues(heard: Heard, connection: Connection) -> None:
        assert heard.headers["last-event-id"] == "4"
        begin_stream(connection)
        send_event(connection, said("done"), id="5")
        send_event(connection, outcome())

    with raw_server(playing([takes_the_answer, continues])) as server:
        with Flotilla(run_url=server.url, api_key="k") as fleet:
            assert fleet.runs.input("run_1", "yes").text == "done"


def test_an_end_for_good_is_a_fault() -> None:
    def refuses(heard: Heard, connection: Connection) -> None:
        begin_stream(connection)
        send_event(connection, '{"code":"forbidden"}', event="end")

    with raw_server(refuses) as server, Flotilla(run_url=server.url, api_key="k") as fleet:
        with pytest.raises(FlotillaError, match="forbidden") as raised:
            list(fleet.runs.resume("run_1"))
    assert raised.value.code == "stream_ended"
    assert len(server.heard) == 1


def test_a_service_that_stays_away_is_a_fault_after_its_time() -> None:
    def record_then_away(heard: Heard, connection: Connection) -> None:
        if "last-event-id" in heard.headers:
            away(heard, connection)
            return
        begin_stream(connection)
        send_event(connection, json.dumps(record(1)), id="0:2")

    with raw_server(record_then_away) as server:
        options: dict[str, Any] = {"base_url": server.url, "id_token": "t", "attempts_max": 1}
        with Flotilla(**options) as fleet:
            records = fleet.records("hub.records", away_max=0.2)
            assert next(records).position == "0:2"
            with pytest.raises(FlotillaError, match="http_502"):
                next(records)
    assert len(server.heard) > 2
    assert {heard.headers.get("last-event-id") for heard in server.heard[1:]} == {"0:2"}


def record(offset: int) -> dict[str, Any]:
    return {"partition": 0, "offset": offset, "timestamp": "t", "key": "k", "headers": {}, "value": {"n": offset}}


def test_records_begin_where_they_are_changes_seen_and_go_on_behind_a_cut() -> None:
    def first(heard: Heard, connection: Connection) -> None:
        assert heard.line == "GET /api/v1/log/topics/hub.records/records?from=0%3A1 HTTP/1.1"
        begin_stream(connection)
        send_event(connection, '{"next":"0:1"}', event="ready", id="0:1")
        send_event(connection, json.dumps(record(1)), id="0:2")
        connection.sendall(b"id: 0:3\n\n")  # A heartbeat carries the position, too.

    def second(heard: Heard, connection: Connection) -> None:
        assert heard.line == "GET /api/v1/log/topics/hub.records/records HTTP/1.1"
        assert heard.headers["last-event-id"] == "0:3"
        begin_stream(connection)
        send_event(connection, json.dumps(record(3)), id="0:4")

    with raw_server(playing([first, second])) as server, Flotilla(base_url=server.url, id_token="t") as fleet:
        with fleet.records("hub.records", "0:1") as records:
            given = [next(records), next(records)]
    assert [(one.offset, one.position, one.value) for one in given] == [(1, "0:2", {"n": 1}), (3, "0:4", {"n": 3})]


def test_present_records_have_the_position_behind_each() -> None:
    pages = [
        {"records": [record(0), {**record(5), "partition": 1}], "next": "e2/0:1,1:6"},
        {"records": [], "next": "e2/0:1,1:6"},
    ]

    def page(_: Heard, connection: Connection) -> None:
        send_json(connection, json.dumps({"ok": True, "data": pages.pop(0)}).encode())

    with raw_server(page) as server, Flotilla(base_url=server.url, id_token="t") as fleet:
        positions = [one.position for one in fleet.records("hub.records", follow=False)]
    assert positions == ["e2/0:1", "e2/0:1,1:6"]
    assert "from=e2%2F0%3A1%2C1%3A6" in server.heard[1].line


def test_changes_of_notes_are_changes_seen_with_what_is_not_known() -> None:
    note = json.dumps(
        {
            **{"id": 1, "subject": "s", "body": "b", "priority": "normal", "status": "active", "thread_id": "t"},
            **{"parent_id": None, "author": "a", "created_at": "c", "updated_at": "u"},
        }
    )

    def changes(_: Heard, connection: Connection) -> None:
        begin_stream(connection)
        send_event(connection, "{}", event="ready", id="p1")
        send_event(connection, note, id="p2")

    def reset(heard: Heard, connection: Connection) -> None:
        assert heard.headers["last-event-id"] == "p2"
        begin_stream(connection)
        send_event(connection, "{}", event="reset", id="p9")

    with raw_server(playing([changes, reset])) as server, Flotilla(hub_url=server.url, api_key="k") as fleet:
        with fleet.notes.events() as events:
            changes_seen = [next(events) for _ in range(3)]
    assert [(one.kind, one.id) for one in changes_seen] == [("ready", "p1"), ("change", "p2"), ("reset", "p9")]
    assert changes_seen[1].record is not None
    assert changes_seen[1].record.subject == "s"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_their_bytes_are_cut(size: int) -> None:
    text = (
        'id: 1\r\nevent: x\r\ndata: "ä"\r\n\r\n: beat\n\ndata: one\ndata: two\nid:2\n\ndata: 3\n\nid: 4\n\nda'.encode()
    )
    reader = EventReader()
    events = [event for at in range(0, len(text), size) for event in reader.feed(text[at : at + size])]
    assert [(one.kind, one.id, one.data) for one in events] == [
        ("x", "1", '"ä"'),
        ("heartbeat", "1", ""),
        ("message", "2", "one\ntwo"),
        ("message", "2", "3"),
        ("heartbeat", "4", ""),
    ]


def test_a_stream_that_never_opens_raises_at_its_first_event() -> None:
    with raw_server(breaks_before_the_answer) as server:
        with Flotilla(run_url=server.url, api_key="k", attempts_max=2) as fleet:
            stream = fleet.runs.stream("atlas", "Who?")
            with pytest.raises(NoAnswer):
                next(stream)
    assert len(server.heard) == 2
