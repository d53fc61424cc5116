"""Events of a run or a dispatch, each once, however often the connection breaks."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ._blocking import Blocking
from ._core import Core
from ._engine import OpenReply, run
from ._request import Endpoint, Request
from ._sse import ServerEvent, resumed
from .run_models import RunEvent

R = TypeVar("R")
P = ParamSpec("P")
G = TypeVar("G")

# The author of the last event of a stream, which holds the outcome and no text.
_GATEWAY = "gateway"


@dataclass(frozen=True)
class Source(Generic[R]):
    """Where the events of a run or a dispatch are read, and the name of the outcome in the last of them."""

    events: Endpoint[RunEvent]
    outcome: Endpoint[R]
    part: str
    name: str
    join: bool | None = None


@dataclass(frozen=True)
class Begun:
    """A stream that has an id; `opened` is its first connection where sending the message opened one."""

    id: str | int
    after: int = 0
    opened: OpenReply | None = None
    session_id: str | None = None


class AsyncEventStream(Generic[R]):
    """Iterates over events as they come, pieces of texts (``partial``) among them, to the end of the run.

    A connection that breaks is opened again behind the last event, for up to a minute without one. Leaving does not
    cancel the run.

    Attributes:
        last_event_id: The number of the last event given out: ``after`` of a later ``resume``.
        result: The run or dispatch as it ended, or as it asks (``input_required``); None before.
        session_id: The session of a message that this stream sent.

    """

    def __init__(self, core: Core, source: Source[R], begin: Callable[[], Awaitable[Begun]]) -> None:
        self._core = core
        self._source = source
        self._begin = begin
        self._begun: Begun | None = None
        self._events: AsyncGenerator[RunEvent, None] | None = None
        self.last_event_id = 0
        self.result: R | None = None

    @property
    def run_id(self) -> str:
        """The run; empty for a dispatch, and before the stream is entered or iterated."""
        return self._begun.id if self._begun is not None and isinstance(self._begun.id, str) else ""

    @property
    def goal_id(self) -> int:
        """The goal of a dispatch; 0 for a run, and before the stream is entered or iterated."""
        return self._begun.id if self._begun is not None and isinstance(self._begun.id, int) else 0

    @property
    def session_id(self) -> str | None:
        """The session, where this stream sent the message."""
        return self._begun.session_id if self._begun is not None else None

    async def open(self) -> Self:
        """Sends what begins the run, once; iterating does it too."""
        if self._begun is None:
            self._begun = begun = await self._begin()
            self.last_event_id = begun.after
            self._events = self._read(begun)
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[RunEvent]:
        return self

    async def __anext__(self) -> RunEvent:
        await self.open()
        if self._events is None:
            raise StopAsyncIteration
        return await anext(self._events)

    async def aclose(self) -> None:
        """Closes the connection; the run goes on."""
        if self._events is not None:
            await self._events.aclose()
        elif self._begun is not None and self._begun.opened is not None:
            await self._begun.opened.close()

    async def _read(self, begun: Begun) -> AsyncGenerator[RunEvent, None]:
        def request() -> Request[Any]:
            last_id = str(self.last_event_id) if self.last_event_id > 0 else None
            return self._source.events.request(
                parts={self._source.part: begun.id},
                query={} if self._source.join in (None, True) else {"join": False},
                headers={"accept": "text/event-stream", "last-event-id": last_id},
            )

        async with aclosing(resumed(self._core, request, first=begun.opened)) as events:
            async for event in events:
                given = self._take(event)
                if event.kind == "empty":
                    # It has ended, and every event was read before, the last one too.
                    self.result = await self._core.call(
                        self._source.outcome.request(parts={self._source.part: begun.id})
                    )
                if self.result is not None:
                    return
                if given is not None:
                    yield given

    def _take(self, event: ServerEvent) -> RunEvent | None:
        """The event, unless it was given out before; keeps the outcome."""
        if event.kind != "message":
            return None
        read = RunEvent.model_validate_json(event.data)
        if read.author == _GATEWAY:
            outcome = (read.custom_metadata or {}).get(self._source.name)
            if outcome is not None:
                self.result = self._source.outcome.adapter.validate_python(outcome)
            return read
        # Neither pieces nor questions of a dispatch's runs have an id.
        if not read.partial:
            number = int(event.id or 0)
            if number <= self.last_event_id:
                return None
            self.last_event_id = number
        return read


class EventStream(Generic[R]):
    """The blocking form of AsyncEventStream: a context manager and an iterator over events."""

    def __init__(self, stream: AsyncEventStream[R]) -> None:
        self._stream = stream

    @property
    def run_id(self) -> str:
        """The run; empty for a dispatch, and before the stream is entered or iterated."""
        return self._stream.run_id

    @property
    def goal_id(self) -> int:
        """The goal of a dispatch; 0 for a run, and before the stream is entered or iterated."""
        return self._stream.goal_id

    @property
    def session_id(self) -> str | None:
        """The session, where this stream sent the message."""
        return self._stream.session_id

    @property
    def last_event_id(self) -> int:
        """The number of the last event given out: ``after`` of a later ``resume``."""
        return self._stream.last_event_id

    @property
    def result(self) -> R | None:
        """The run or dispatch as it ended, or as it asks; None before."""
        return self._stream.result

    def open(self) -> Self:
        """Sends what begins the run, once; iterating does it too."""
        run(self._stream.open())
        return self

    def close(self) -> None:
        """Closes the connection; the run goes on."""
        run(self._stream.aclose())

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[RunEvent]:
        return self

    def __next__(self) -> RunEvent:
        try:
            return run(self._stream.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


def streaming(
    body: Callable[Concatenate[G, P], AsyncEventStream[R]],
) -> Callable[Concatenate[Blocking[G], P], EventStream[R]]:
    """A method that returns the blocking form of a stream."""

    @functools.wraps(body)
    def method(self: Blocking[G], /, *args: P.args, **kwargs: P.kwargs) -> EventStream[R]:
        return EventStream(body(self._calls, *args, **kwargs))

    return method
