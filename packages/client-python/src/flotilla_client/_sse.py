"""Reads server-sent events, and opens a stream again where it broke."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from ._core import Core
from ._engine import OpenReply
from ._request import Request
from .errors import FlotillaError, is_away, own_error

AWAY_MAX = 60.0
"""Seconds for which a stream is opened again without an event between: a gateway needs a moment to start."""
PAUSE = 0.5
"""Seconds between the end of a stream and the next attempt."""

# After an event `end` with one of these codes the stream is opened again; whether its caller may is answered then.
_RESUMABLE = frozenset(
    (
        "shutting_down",
        "token_expired",
        "unauthorized",
        "log_unavailable",
        "registry_unavailable",
        "position_expired",
    )
)


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event; `id` is its own, or that of the last one that had an id: where the stream resumes."""

    kind: str
    id: str | None
    data: str


class EventReader:
    """Takes a stream apart, however its bytes are cut."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pieces: list[str] = []
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that are whole now."""
        # JSON holds no bare carriage return, and a proxy may have made CRLF of the ends of lines.
        text = self._decode(chunk).replace("\r", "")
        self._pieces.append(text)
        # Joined only where an event may end: a large one comes in many pieces.
        if "\n" not in text:
            return []
        *frames, rest = "".join(self._pieces).split("\n\n")
        self._pieces = [rest]
        return [self._event(frame) for frame in frames]

    def _event(self, frame: str) -> ServerEvent:
        kind, data = "message", None
        for line in frame.split("\n"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data = value if data is None else f"{data}\n{value}"
            elif name == "id":
                self._id = value
            elif name == "event":
                kind = value
        return ServerEvent("heartbeat", self._id, "") if data is None else ServerEvent(kind, self._id, data)


async def events_of(reply: OpenReply) -> AsyncGenerator[ServerEvent, None]:
    """Ends with the body, and where it breaks or falls silent: the caller connects again."""
    reader = EventReader()
    try:
        async for chunk in reply.chunks:
            for event in reader.feed(chunk):
                yield event
    except FlotillaError as error:
        if error.code == "closed":
            raise
    finally:
        # A body that broke may refuse to be closed.
        with suppress(FlotillaError, OSError):
            await reply.close()


async def resumed(
    core: Core,
    request_of: Callable[[], Request[Any]],
    *,
    first: OpenReply | None = None,
    away_max: float = AWAY_MAX,
    is_passing: Callable[[FlotillaError], bool] = is_away,
) -> AsyncGenerator[ServerEvent, None]:
    """The events of a stream that is opened again wherever it ends, without an end of its own.

    `request_of` is asked at each opening: the request goes on behind the last event. `first` is open already. An answer
    without a body (204) is an event `empty`. Raises FlotillaError when the service stays away, refuses, or ends the
    stream for good.
    """
    engine = core.engine
    seen_at = engine.now()
    reply = first
    while True:
        if reply is None:
            reply = await _opened(core, request_of, seen_at + away_max, is_passing)
        if reply.status == 204:
            await reply.close()
            yield ServerEvent("empty", None, "")
            return
        async with aclosing(events_of(reply)) as events:
            async for event in events:
                seen_at = engine.now()
                if event.kind == "end":
                    refuse_end(event.data)
                yield event
        reply = None
        await engine.sleep(PAUSE)


async def _opened(
    core: Core, request_of: Callable[[], Request[Any]], until: float, is_passing: Callable[[FlotillaError], bool]
) -> OpenReply:
    while True:
        try:
            return await core.open(request_of())
        except FlotillaError as error:
            if not is_passing(error) or core.engine.now() > until:
                raise
        await core.engine.sleep(PAUSE)


def refuse_end(data: str) -> None:
    """Raises FlotillaError `stream_ended` where another attempt would end the same way."""
    try:
        code = from_json(data).get("code")
    except (ValueError, AttributeError):
        code = None
    if code not in _RESUMABLE:
        raise own_error("stream_ended", f"the stream ended: {code}")
