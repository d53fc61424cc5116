"""Sessions and agents at the run gateway."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from . import _run_requests as requests
from ._blocking import Blocking, blocking, iterating
from ._core import Core
from ._request import Request
from ._sse import resumed
from .hub import next_of
from .hub_models import Page
from .run_models import Agent, RunEvent, Session, SessionDeleted


class AsyncSessions:
    """A session is a user and an id: the messages of the user and the answers of all agents."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def list(
        self,
        *,
        user_id: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Session]:
        """A page of at most ``limit`` sessions (100), the one with the newest message first."""
        query = {"userId": user_id, "agent": agent, "limit": limit, "cursor": cursor}
        answer = await self._core.respond(requests.SESSIONS.request(query=query))
        return Page(answer.data, next_of(answer.headers.get("link")))

    async def events(
        self,
        session_id: str,
        *,
        user_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[RunEvent]:
        """A page of messages (author `user`) and of what agents said, in order. Raises NotFound `session_not_found`."""
        query = {"userId": user_id, "limit": limit, "cursor": cursor}
        answer = await self._core.respond(requests.SESSION_EVENTS.request(parts={"sessionId": session_id}, query=query))
        return Page(answer.data, next_of(answer.headers.get("link")))

    async def follow(
        self, session_id: str, *, user_id: str | None = None, after: str | None = None
    ) -> AsyncGenerator[tuple[str, RunEvent], None]:
        """All events so far, then new ones until the iteration is left, each with its position, for ``after``."""
        position = after

        def request() -> Request[Any]:
            headers = {"accept": "text/event-stream", "last-event-id": position}
            query = {"userId": user_id}
            return requests.SESSION_EVENTS.request(parts={"sessionId": session_id}, query=query, headers=headers)

        async with aclosing(resumed(self._core, request)) as events:
            async for event in events:
                if event.kind == "message":
                    position = event.id or position
                    yield position or "", RunEvent.model_validate_json(event.data)

    async def delete(self, session_id: str, *, user_id: str | None = None) -> SessionDeleted:
        """Deletes a session, also at its nodes. Raises Conflict `session_busy` while a run has not ended."""
        request = requests.SESSION_DELETE.request(parts={"sessionId": session_id}, query={"userId": user_id})
        return await self._core.call(request)


class Sessions(Blocking[AsyncSessions]):
    """A session is a user and an id: the messages of the user and the answers of all agents."""

    list = blocking(AsyncSessions.list)
    events = blocking(AsyncSessions.events)
    follow = iterating(AsyncSessions.follow)
    delete = blocking(AsyncSessions.delete)


class AsyncAgents:
    """The agents that take messages."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def list(self) -> builtins.list[Agent]:
        """All of them, also those whose node does not answer."""
        return await self._core.call(requests.AGENTS.request())

    async def get(self, slug: str) -> Agent:
        """One agent, by its slug in any case. Raises NotFound `agent_not_found`."""
        return await self._core.call(requests.AGENT.request(parts={"slug": slug}))


class Agents(Blocking[AsyncAgents]):
    """The agents that take messages."""

    list = blocking(AsyncAgents.list)
    get = blocking(AsyncAgents.get)
