"""Runs of agents over the run gateway: messages, streams, dispatches to all agents, sessions."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Unpack
from uuid import uuid4

from . import _run_requests as requests
from ._blocking import Blocking, blocking, iterating
from ._core import Core
from ._run_streams import AsyncEventStream, Begun, Source, streaming
from .errors import RunFailed
from .hub import next_of
from .hub_models import Page
from .run_models import Dispatch, Message, Part, Run, RunAnswer, RunEvent, RunOptions, RunStatus, StartOptions
from .sessions import AsyncSessions, Sessions

_STATUS_OF_CODE = {
    "agent_error": 502,
    "node_lost": 502,
    "node_unavailable": 503,
    "run_timeout": 504,
    "input_expired": 504,
    "too_many_events": 502,
}


class AsyncDispatches:
    """Messages to every agent as one goal."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def get(self, goal_id: int) -> Dispatch:
        """One dispatch. Raises NotFound `dispatch_not_found`."""
        return await self._core.call(requests.DISPATCH_SHOW.request(parts={"goalId": goal_id}))

    async def cancel(self, goal_id: int) -> Dispatch:
        """Cancels its runs; one that has ended stays as it is."""
        return await self._core.call(requests.DISPATCH_CANCEL.request(parts={"goalId": goal_id}))

    def stream(self, goal_id: int, *, after: int = 0) -> AsyncEventStream[Dispatch]:
        """The events of all its agents and of the orchestrator, behind the event ``after``."""
        source = Source(requests.DISPATCH_EVENTS, requests.DISPATCH_SHOW, "goalId", "dispatch")

        async def begin() -> Begun:
            return Begun(goal_id, after)

        return AsyncEventStream(self._core, source, begin)


class AsyncRuns:
    """Messages to agents and their answers. Every message has an idempotency key, so that none is acted on twice."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.sessions = AsyncSessions(core)
        self.dispatches = AsyncDispatches(core)

    async def run(self, agent: str, message: Message, **options: Unpack[RunOptions]) -> RunAnswer:
        """Sends a message to an agent (its slug, `atlas`) and waits for the end of the run.

        Raises RunFailed with the run's own code when it failed, `run_canceled` when somebody canceled it. Where the
        agent asks back it returns the run that waits (`input_required`, its ``question``).
        """
        return await _answer(self.stream(agent, message, **options))

    def stream(self, agent: str, message: Message, **options: Unpack[RunOptions]) -> AsyncEventStream[Run]:
        """As ``run``, with the events as they come: a context manager to iterate over, with ``result`` at its end."""
        request, join = requests.run_request(agent, message, options)

        async def begin() -> Begun:
            reply = await self._core.open(request)
            return Begun(reply.headers.get("x-run-id", ""), 0, reply, reply.headers.get("x-session-id"))

        return AsyncEventStream(self._core, _source(join), begin)

    async def start(self, agent: str, message: Message, **options: Unpack[StartOptions]) -> Run:
        """Sends a message and returns at once, with the run as it is; ``resume`` reads its events."""
        return await self._core.call(requests.start_request(agent, message, options))

    def resume(self, run_id: str, *, after: int = 0, join: bool | None = None) -> AsyncEventStream[Run]:
        """The events of a run that was started before, also of one that has ended, behind the event ``after``."""

        async def begin() -> Begun:
            return Begun(run_id, after)

        return AsyncEventStream(self._core, _source(join), begin)

    async def get(self, run_id: str) -> Run:
        """One run. Raises NotFound `run_not_found`."""
        return await self._core.call(requests.SHOW.request(parts={"runId": run_id}))

    async def list(
        self,
        *,
        agent: str | None = None,
        status: RunStatus | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        goal_id: int | None = None,
        root_run_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Run]:
        """A page of at most ``limit`` runs (100), the newest first; all of ``metadata`` is among that of each."""
        query: dict[str, Any] = {
            "agent": agent,
            "status": status,
            "userId": user_id,
            "sessionId": session_id,
            "goalId": goal_id,
            "rootRunId": root_run_id,
            "limit": limit,
            "cursor": cursor,
            **{f"metadata.{name}": value for name, value in (metadata or {}).items()},
        }
        answer = await self._core.respond(requests.LIST.request(query=query))
        return Page(answer.data, next_of(answer.headers.get("link")))

    async def all(
        self,
        *,
        agent: str | None = None,
        status: RunStatus | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Run]:
        """Every run, page by page, the newest first."""
        cursor: str | None = None
        while True:
            page = await self.list(
                agent=agent, status=status, user_id=user_id, session_id=session_id, metadata=metadata, cursor=cursor
            )
            for item in page.items:
                yield item
            cursor = page.next
            if cursor is None:
                return

    async def cancel(self, run_id: str) -> Run:
        """Cancels a run and those of the agents that joined. One that has ended stays as it is."""
        return await self._core.call(requests.CANCEL.request(parts={"runId": run_id}))

    async def input(
        self, run_id: str, answer: str | Sequence[Part], *, idempotency_key: str | None = None
    ) -> RunAnswer:
        """Answers the question of a run that is `input_required`, and ends as ``run`` does.

        A text, or parts: a `functionResponse` with the id of a call. Raises Conflict `not_waiting`.
        """
        return await _answer(self.input_stream(run_id, answer, idempotency_key=idempotency_key))

    def input_stream(
        self, run_id: str, answer: str | Sequence[Part], *, idempotency_key: str | None = None
    ) -> AsyncEventStream[Run]:
        """As ``input``, with the events as they come."""
        body = {"message": answer} if isinstance(answer, str) else {"parts": builtins.list(answer)}
        headers = {"idempotency-key": idempotency_key or str(uuid4()), "prefer": "respond-async"}

        async def begin() -> Begun:
            request = requests.INPUT.request(parts={"runId": run_id}, body=body, headers=headers)
            going_on = await self._core.call(request)
            return Begun(run_id, going_on.last_event_id)

        return AsyncEventStream(self._core, _source(None), begin)

    async def dispatch(
        self,
        message: Message,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Dispatch:
        """Sends a message to every agent as one goal, and returns at once; ``dispatches.stream`` reads its events."""
        sent = message if isinstance(message, str) else requests.content_of(message)
        body = {"message": sent, "userId": user_id, "sessionId": session_id, "metadata": metadata}
        headers = {"idempotency-key": idempotency_key or str(uuid4())}
        return await self._core.call(requests.DISPATCH.request(body=body, headers=headers))


def _source(join: bool | None) -> Source[Run]:
    return Source(requests.EVENTS, requests.SHOW, "runId", "run", join)


async def _answer(stream: AsyncEventStream[Run]) -> RunAnswer:
    events: list[RunEvent] = []
    async with stream:
        async for event in stream:
            if not event.partial:
                events.append(event)
    if stream.result is None:
        raise RuntimeError("a stream of events ended without an outcome")
    if stream.result.status not in ("completed", "input_required"):
        raise fault_of(stream.result)
    return RunAnswer(stream.result, events)


def fault_of(run: Run) -> RunFailed:
    """A run that has not completed, as the fault of the call that waited for it."""
    is_canceled = run.status == "canceled"
    code = run.error.code if run.error is not None else ("run_canceled" if is_canceled else "agent_error")
    detail = run.error.message if run.error is not None else "somebody canceled it"
    status = 409 if is_canceled else _STATUS_OF_CODE.get(code, 502)
    fault = RunFailed(code, status, f"{run.run_id}: {detail}")
    fault.run = run
    return fault


class Dispatches(Blocking[AsyncDispatches]):
    """Messages to every agent as one goal."""

    get = blocking(AsyncDispatches.get)
    cancel = blocking(AsyncDispatches.cancel)
    stream = streaming(AsyncDispatches.stream)


class Runs(Blocking[AsyncRuns]):
    """Messages to agents and their answers."""

    def __init__(self, calls: AsyncRuns) -> None:
        super().__init__(calls)
        self.sessions = Sessions(calls.sessions)
        self.dispatches = Dispatches(calls.dispatches)

    run = blocking(AsyncRuns.run)
    stream = streaming(AsyncRuns.stream)
    start = blocking(AsyncRuns.start)
    resume = streaming(AsyncRuns.resume)
    get = blocking(AsyncRuns.get)
    list = blocking(AsyncRuns.list)
    all = iterating(AsyncRuns.all)
    cancel = blocking(AsyncRuns.cancel)
    input = blocking(AsyncRuns.input)
    input_stream = streaming(AsyncRuns.input_stream)
    dispatch = blocking(AsyncRuns.dispatch)
