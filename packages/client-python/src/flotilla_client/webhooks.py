"""For receivers of webhooks: hands each event to a handler once and in order, and says which HTTP status to answer."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pydantic_core import from_json

from ._engine import FairLock, run
from ._json import json_of
from .platform_models import WebhookEvent
from .webhook_signature import (
    Headers,
    RefusalReason,
    Signed,
    WebhookRefused,
    check_secrets,
    header_of,
    required_header,
    verify_webhook,
)
from .webhook_store import FinishedDelivery, MemoryStore, ReceiverStore

T = TypeVar("T")

# Requests of one lane that may wait for the one before: the sender gave up on those and sends them again.
_WAITING_MAX = 8


@dataclass(frozen=True)
class Gap:
    """Events behind ``after`` up to ``through`` were parked: they come later as replays, or never."""

    after: int
    through: int


@dataclass(frozen=True)
class Delivery:
    """How an event came.

    Attributes:
        sequence: Rises in its lane (target, or agent), not always by one.
        previous_sequence: The one before it; None states nothing.
        attempt: From 1.
        replay: It was parked once and comes now, perhaps behind later ones.
        gap: The events that are missing right before it.

    """

    idempotency_key: str
    sequence: int
    previous_sequence: int | None
    attempt: int
    replay: bool
    gap: Gap | None = None


@dataclass(frozen=True)
class Received:
    """What became of a request, and the HTTP status to answer it with.

    ``duplicate``: it was handled before. ``stale``: the lane is beyond it. ``failed``: the handler or the store raised
    ``error``, and the sender tries again. ``busy``: earlier attempts of the lane are still at work. ``refused``: see
    ``reason``.
    """

    what: Literal["handled", "duplicate", "stale", "failed", "busy", "refused"]
    status: int
    delivery: Delivery | None = None
    error: Exception | None = None
    reason: RefusalReason | None = None
    message: str = ""


Handle = Callable[[WebhookEvent, Delivery], object]
AsyncHandle = Callable[[WebhookEvent, Delivery], Awaitable[object] | object]


class _Lane:
    def __init__(self, lock: AbstractAsyncContextManager[None]) -> None:
        self.lock = lock
        self.waiting = 0


class AsyncReceiver:
    """Receives for one target. Several processes that do need a store that they share.

    Args:
        secrets: The target's signing secrets, or None for a target without one: then nothing is verified.
        ordering: As in the targets file: one lane for the target, or one for each agent.
        store: Where finished deliveries are kept; by default in memory.
        tolerance: How far the sender's clock may be away, in seconds, either way.
        now: Seconds since 1970, for tests.

    Raises:
        ValueError: A secret is none.

    """

    def __init__(
        self,
        secrets: Sequence[str] | None,
        *,
        ordering: Literal["target", "agent"] = "target",
        store: ReceiverStore | None = None,
        tolerance: float = 300.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        if secrets is not None:
            check_secrets(secrets)  # At once, not at the first request.
        self._secrets = secrets
        self._by_agent = ordering == "agent"
        self._store = store if store is not None else MemoryStore()
        self._tolerance = tolerance
        self._now = now
        self._lanes: dict[str, _Lane] = {}
        self._mutex = threading.Lock()

    async def receive(self, headers: Headers, body: bytes, handle: AsyncHandle) -> Received:
        """Hands the event to ``handle`` unless it was handled before; raises nothing for a bad request or handler.

        ``body`` is the raw body as it came: the signature covers its bytes.
        """
        listed = list(headers.items()) if hasattr(headers, "items") else list(headers)
        try:
            if self._secrets is not None:
                self._verify(listed, body, self._secrets)
            delivery = _delivery_of(listed)
            event = _event_of(body, delivery)
        except WebhookRefused as error:
            return Received("refused", error.status, reason=error.reason, message=str(error))
        name = event.agent if self._by_agent else ""
        lane = self._enter(name)
        if lane is None:
            return Received("busy", 503)
        try:
            async with lane.lock:
                return await self._take(name, event, delivery, handle)
        finally:
            self._leave(name, lane)

    def _enter(self, name: str) -> _Lane | None:
        """A place in the lane; None when too much waits there already."""
        with self._mutex:
            lane = self._lanes.setdefault(name, _Lane(self._lock()))
            if lane.waiting >= _WAITING_MAX:
                return None
            lane.waiting += 1
            return lane

    def _leave(self, name: str, lane: _Lane) -> None:
        with self._mutex:
            lane.waiting -= 1
            if lane.waiting == 0:
                del self._lanes[name]

    def _verify(self, headers: Headers, body: bytes, secrets: Sequence[str]) -> Signed:
        return verify_webhook(headers, body, secrets=secrets, tolerance=self._tolerance, now=self._now)

    def _lock(self) -> AbstractAsyncContextManager[None]:
        return asyncio.Lock()

    async def _take(self, lane: str, event: WebhookEvent, delivery: Delivery, handle: AsyncHandle) -> Received:
        store = self._store
        sequence, previous = delivery.sequence, delivery.previous_sequence
        # Not the key of the headers: agent `build-2` with task `1` and agent `build` with task `2-1` share it.
        key = json_of([event.agent, event.task_id, event.event]).decode()
        try:
            last = await _value(store.last_sequence(lane))
            if not delivery.replay and last is not None and previous is not None and last < previous:
                delivery = replace(delivery, gap=Gap(last, previous))
            is_past = last is not None and sequence <= last
            if await _value(store.was_finished(key)):
                # Two fires of one event have a sequence each: the lane goes on, the handler has nothing to do.
                if not is_past:
                    await _value(store.finish(FinishedDelivery(lane, sequence, key)))
                return Received("duplicate", 200, delivery)
            # Without a sequence before it, a new event with a low sequence is the first of a lane that begins again.
            if is_past and not delivery.replay and previous is not None:
                return Received("stale", 200, delivery)
            await _value(handle(event, delivery))
            # A replay may come behind later ones: it never takes the lane back, nor says where it begins.
            moves = not delivery.replay or (last is not None and not is_past)
            await _value(store.finish(FinishedDelivery(lane, sequence if moves else None, key)))
        except Exception as error:
            return Received("failed", 500, delivery, error=error)
        return Received("handled", 200, delivery)


class Receiver:
    """The blocking form of AsyncReceiver, for any number of threads; takes the same arguments."""

    def __init__(
        self,
        secrets: Sequence[str] | None,
        *,
        ordering: Literal["target", "agent"] = "target",
        store: ReceiverStore | None = None,
        tolerance: float = 300.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._receiver = _ThreadedReceiver(secrets, ordering=ordering, store=store, tolerance=tolerance, now=now)

    def receive(self, headers: Headers, body: bytes, handle: Handle) -> Received:
        """Hands the event to ``handle`` unless it was handled before; raises nothing for a bad request or handler."""
        return run(self._receiver.receive(headers, body, handle))


class _ThreadedReceiver(AsyncReceiver):
    def _lock(self) -> AbstractAsyncContextManager[None]:
        return FairLock()


async def _value(given: Awaitable[T] | T) -> T:
    return await given if inspect.isawaitable(given) else given


def _delivery_of(headers: Headers) -> Delivery:
    previous = header_of(headers, "x-previous-sequence")
    return Delivery(
        required_header(headers, "x-idempotency-key"),
        _number("x-sequence", required_header(headers, "x-sequence")),
        None if previous is None else _number("x-previous-sequence", previous),
        _number("x-attempt", header_of(headers, "x-attempt") or "1"),
        header_of(headers, "x-webhook-replay") == "true",
    )


def _number(name: str, text: str) -> int:
    if re.fullmatch(r"[0-9]{1,16}", text):
        return int(text)
    raise WebhookRefused("invalid_header", f"{name} is no number")


def _event_of(body: bytes, delivery: Delivery) -> WebhookEvent:
    """Headers are not under the signature: the key must be the one that the signed body holds."""
    try:
        given = from_json(body)
    except ValueError:
        raise WebhookRefused("invalid_body", "the body is not JSON") from None
    fields = given if isinstance(given, dict) else {}
    kind, agent, task_id = (fields.get(name) for name in ("event", "agent", "task_id"))
    if not (isinstance(kind, str) and isinstance(agent, str) and isinstance(task_id, str)):
        raise WebhookRefused("invalid_body", "the body is no event")
    if delivery.idempotency_key != f"{agent}-{task_id}-{kind}":
        raise WebhookRefused("invalid_header", "x-idempotency-key is not that of the body")
    result, ts = fields.get("result"), fields.get("ts")
    return WebhookEvent(
        kind,
        agent,
        task_id,
        result if isinstance(result, dict) else {},
        ts if isinstance(ts, int) else 0,
        delivery.idempotency_key,
    )


__all__ = [
    "AsyncReceiver",
    "Delivery",
    "FinishedDelivery",
    "Gap",
    "MemoryStore",
    "Received",
    "Receiver",
    "ReceiverStore",
    "WebhookEvent",
    "WebhookRefused",
    "verify_webhook",
]
