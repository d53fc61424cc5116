"""What a receiver does with signatures, order and duplicates: the rules of the receiver in TypeScript."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from flotilla_client.webhooks import (
    AsyncReceiver,
    Delivery,
    FinishedDelivery,
    Gap,
    MemoryStore,
    Received,
    Receiver,
    WebhookEvent,
    WebhookRefused,
    verify_webhook,
)

KEY = bytes(range(24))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
OTHER = "whsec_" + base64.b64encode(b"x" * 24).decode()
NOW = 1_700_000_000
README = Path(__file__).parents[1] / "README.md"


def body_of(task: str = "1", agent: str = "whale", kind: str = "task.completed") -> bytes:
    fields = {"event": kind, "agent": agent, "task_id": task, "result": {"n": 1}, "ts": NOW}
    return json.dumps({**fields, "idempotency_key": f"{agent}-{task}-{kind}"}).encode()


def headers_of(body: bytes, sequence: int = 1, previous: int | None = None, **more: str) -> dict[str, str]:
    fields = json.loads(body)
    text = f"msg_1.{NOW}.".encode() + body
    signature = base64.b64encode(hmac.new(KEY, text, hashlib.sha256).digest()).decode()
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(NOW),
        "Webhook-Signature": f"v1a,zzz v1,{signature}",
        "X-Idempotency-Key": f"{fields['agent']}-{fields['task_id']}-{fields['event']}",
        "X-Sequence": str(sequence),
        **({} if previous is None else {"X-Previous-Sequence": str(previous)}),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }


def receiver_of(**options: Any) -> Receiver:
    return Receiver([SECRET], now=lambda: NOW, **options)


class Handler:
    def __init__(self) -> None:
        self.seen: list[tuple[str, Delivery]] = []

    def __call__(self, event: WebhookEvent, delivery: Delivery) -> None:
        self.seen.append((event.task_id, delivery))


def receive(
    receiver: Receiver, handler: Any, task: str, sequence: int, previous: int | None = None, **more: str
) -> Received:
    body = body_of(task, more.pop("agent", "whale"))
    return receiver.receive(headers_of(body, sequence, previous, **more), body, handler)


def test_an_event_is_handled_once() -> None:
    receiver, handler = receiver_of(), Handler()
    assert [receive(receiver, handler, "1", 5).what for _ in range(2)] == ["handled", "duplicate"]
    ((task, delivery),) = handler.seen
    assert task == "1"
    assert delivery == Delivery("whale-1-task.completed", 5, None, 1, False, None)


def test_two_events_that_share_a_key_are_two() -> None:
    receiver, handler = receiver_of(), Handler()
    receive(receiver, handler, "1", 1, agent="build-2")
    assert receive(receiver, handler, "2-1", 2, 1, agent="build").what == "handled"


def test_a_late_copy_is_stale_and_a_lane_may_begin_again() -> None:
    receiver, handler = receiver_of(), Handler()
    receive(receiver, handler, "9", 9)
    assert receive(receiver, handler, "8", 8, 7).what == "stale"
    assert receive(receiver, handler, "new", 1).what == "handled"
    assert receive(receiver, handler, "newer", 2, 1).what == "handled"
    assert [task for task, _ in handler.seen] == ["9", "new", "newer"]


def test_a_duplicate_moves_its_lane_on_and_never_back() -> None:
    receiver, handler = receiver_of(), Handler()
    receive(receiver, handler, "1", 1)
    receive(receiver, handler, "5", 5, 1)
    assert receive(receiver, handler, "1", 1).what == "duplicate"
    assert receive(receiver, handler, "4", 4, 3).what == "stale"
    assert receive(receiver, handler, "5", 7, 5).what == "duplicate"
    assert receive(receiver, handler, "8", 8, 7).what == "handled"
    assert handler.seen[-1][1].gap is None


def test_missing_events_are_reported_and_replays_come_behind_later_ones() -> None:
    receiver, handler = receiver_of(), Handler()
    receive(receiver, handler, "1", 1)
    receive(receiver, handler, "4", 4, 3)
    assert receive(receiver, handler, "3", 3, 2, X_Webhook_Replay="true").what == "handled"
    assert receive(receiver, handler, "5", 5, 4).what == "handled"
    assert [delivery.gap for _, delivery in handler.seen] == [None, Gap(1, 3), None, None]
    assert handler.seen[2][1].replay


def test_a_handler_that_raises_is_asked_again() -> None:
    receiver, handler = receiver_of(), Handler()

    def fails(event: WebhookEvent, delivery: Delivery) -> None:
        raise RuntimeError("no disk")

    failed = receive(receiver, fails, "1", 1)
    assert (failed.what, failed.status, str(failed.error)) == ("failed", 500, "no disk")
    assert receive(receiver, handler, "1", 1).what == "handled"


def test_the_lanes_of_agents_have_sequences_of_their_own() -> None:
    receiver, handler = receiver_of(ordering="agent"), Handler()
    receive(receiver, handler, "1", 9, agent="a")
    assert receive(receiver, handler, "2", 3, 2, agent="b").what == "handled"
    assert receive(receiver, handler, "3", 3, 2, agent="a").what == "stale"


def refused(body: bytes, headers: dict[str, str], **options: Any) -> tuple[str, int, str | None]:
    handler = Handler()
    received = receiver_of(**options).receive(headers, body, handler)
    assert handler.seen == []
    return received.what, received.status, received.reason


def test_requests_that_are_not_what_they_claim_are_refused() -> None:
    body = body_of()
    good = headers_of(body)
    assert refused(body + b" ", good) == ("refused", 401, "invalid_signature")
    assert refused(body, {**good, "Webhook-Signature": "v1,aaaa"}) == ("refused", 401, "invalid_signature")
    assert refused(body, {**good, "Webhook-Id": "a.b"}) == ("refused", 400, "invalid_header")
    assert refused(body, {**good, "Webhook-Timestamp": "soon"}) == ("refused", 400, "invalid_header")
    assert refused(body, {**good, "X-Sequence": "-1"}) == ("refused", 400, "invalid_header")
    assert refused(body, {**good, "X-Idempotency-Key": "another"}) == ("refused", 400, "invalid_header")
    missing = {name: value for name, value in good.items() if name != "X-Sequence"}
    assert refused(body, missing) == ("refused", 400, "missing_header")
    for broken in (b"{", b"[]", b'{"event":"task.completed"}'):
        fields = {**good, "Webhook-Signature": signature_of(broken)}
        assert refused(broken, fields) == ("refused", 400, "invalid_body")


def signature_of(body: bytes, now: int = NOW) -> str:
    digest = hmac.new(KEY, f"msg_1.{now}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


@pytest.mark.parametrize(("away", "what"), [(299, "handled"), (-299, "handled"), (3600, "refused"), (-3600, "refused")])
def test_a_clock_that_is_off_by_an_hour_loses_nothing(away: int, what: str) -> None:
    body = body_of()
    received = Receiver([SECRET], now=lambda: NOW + away).receive(headers_of(body), body, Handler())
    assert received.what == what
    assert received.status == (200 if what == "handled" else 503)


def test_both_secrets_count_during_a_rotation() -> None:
    body = body_of()
    signed = verify_webhook(headers_of(body), body, secrets=[OTHER, SECRET], now=lambda: NOW)
    assert (signed.id, signed.timestamp.timestamp()) == ("msg_1", NOW)
    with pytest.raises(WebhookRefused, match="no secret"):
        verify_webhook(headers_of(body), body, secrets=[OTHER], now=lambda: NOW)


@pytest.mark.parametrize("secrets", [[], ["whsec_short"], ["whsec_????????????????????????"], SECRET])
def test_secrets_that_are_none_are_refused_at_once(secrets: Any) -> None:
    with pytest.raises(ValueError, match="secret"):
        Receiver(secrets)


def test_a_header_that_is_there_twice_counts_as_missing() -> None:
    body = body_of()
    twice = [*headers_of(body).items(), ("webhook-id", "msg_2")]
    assert receiver_of().receive(twice, body, Handler()).reason == "missing_header"


def test_threads_of_a_lane_wait_in_their_order_and_too_many_are_refused() -> None:
    receiver, order = receiver_of(), list[str]()
    begun, goes_on = threading.Event(), threading.Event()

    def slow(event: WebhookEvent, delivery: Delivery) -> None:
        begun.set()
        goes_on.wait(5)
        order.append(event.task_id)

    with ThreadPoolExecutor(9) as pool:
        waiting = []
        for number in range(1, 9):
            waiting.append(pool.submit(receive, receiver, slow, str(number), number))
            begun.wait(5)
            time.sleep(0.03)
        assert receive(receiver, slow, "9", 9) == Received("busy", 503)
        goes_on.set()
        assert [one.result(5).what for one in waiting] == ["handled"] * 8
    assert order == [str(number) for number in range(1, 9)]
    assert receive(receiver, slow, "9", 9).what == "handled"


async def test_a_retry_waits_for_the_attempt_at_work_and_is_a_duplicate_then() -> None:
    receiver = AsyncReceiver([SECRET], now=lambda: NOW)
    body = body_of()
    handled = 0

    async def slow(event: WebhookEvent, delivery: Delivery) -> None:
        nonlocal handled
        await asyncio.sleep(0.02)
        handled += 1

    both = await asyncio.gather(*(receiver.receive(headers_of(body), body, slow) for _ in range(2)))
    assert ([one.what for one in both], handled) == (["handled", "duplicate"], 1)


async def test_a_store_may_be_of_coroutines() -> None:
    kept: list[FinishedDelivery] = []

    class Store:
        async def was_finished(self, key: str) -> bool:
            return any(one.key == key for one in kept)

        async def last_sequence(self, lane: str) -> int | None:
            return kept[-1].sequence if kept else None

        async def finish(self, delivery: FinishedDelivery) -> None:
            kept.append(delivery)

    receiver = AsyncReceiver([SECRET], now=lambda: NOW, store=Store())
    body = body_of()
    first = await receiver.receive(headers_of(body), body, Handler())
    again = await receiver.receive(headers_of(body), body, Handler())
    assert (first.what, again.what) == ("handled", "duplicate")
    assert kept == [FinishedDelivery("", 1, '["whale","1","task.completed"]')]


def test_memory_is_bounded() -> None:
    store = MemoryStore(keys_max=2, lanes_max=1)
    for number in range(3):
        store.finish(FinishedDelivery(f"lane-{number}", number, f"key-{number}"))
    assert [store.was_finished(f"key-{number}") for number in range(3)] == [False, True, True]
    assert [store.last_sequence(f"lane-{number}") for number in range(3)] == [None, None, 2]


def test_the_receiver_of_the_readme_answers_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNING_SECRET", SECRET)
    example: dict[str, Any] = {"__name__": "example"}
    exec(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[-1], example)
    monkeypatch.setattr(example["Hook"], "log_message", lambda *_: None)
    body, now = body_of(), int(time.time())
    good = {**headers_of(body), "Webhook-Timestamp": str(now), "Webhook-Signature": signature_of(body, now)}
    with example["ThreadingHTTPServer"](("127.0.0.1", 0), example["Hook"]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        headers: list[dict[str, str]] = [{}, good, {**good, "Webhook-Signature": "v1,AAAA"}]
        statuses = [httpx2.post(url, content=body, headers=each).status_code for each in headers]
        server.shutdown()
    assert statuses == [400, 200, 401]
