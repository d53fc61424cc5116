"""The main API as agents use it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ._blocking import Blocking, blocking
from ._core import Core
from ._json import json_of
from ._request import Endpoint, Method, Request, endpoint, pairs
from .platform_models import BrainState, Me

_ME = endpoint("main", "GET", "/api/v1/me", Me, enveloped=True)
_BRAIN_STATE = endpoint("main", "GET", "/api/v1/brain/state", BrainState, enveloped=True)


class AsyncMain:
    """The main API, with an ID token: from an agent key, or given."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def me(self) -> Me:
        """Who the caller is to the platform, and which routes it may call."""
        return await self._core.call(_ME.request())

    async def brain_state(self) -> BrainState:
        """Agents, collections, notes, goals, runs, webhooks and lag of the whole platform."""
        return await self._core.call(_BRAIN_STATE.request())

    async def request(
        self,
        method: Method,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        repeatable: bool | None = None,
    ) -> Any:
        """Any other route below `/api/v1`, for example ``request("GET", "log/groups")``: the `data` of its answer.

        ``repeatable``: sent again after 503, a time-out or no answer, too; by default for GET alone.
        """
        safe = method == "GET" if repeatable is None else repeatable
        content = None if body is None else json_of(body)
        return await self._core.call(
            Request(_any(method), f"/api/v1/{path.lstrip('/')}", pairs(query or {}), content, (), safe)
        )

    async def id_token(self) -> str:
        """A valid ID token, for calls of one's own."""
        return await self._core.credentials["main"].get()


@functools.cache
def _any(method: Method) -> Endpoint[Any]:
    return Endpoint("main", method, "/api/v1/…", Any, enveloped=True)


class Main(Blocking[AsyncMain]):
    """The main API, with an ID token: from an agent key, or given."""

    me = blocking(AsyncMain.me)
    brain_state = blocking(AsyncMain.brain_state)
    request = blocking(AsyncMain.request)
    id_token = blocking(AsyncMain.id_token)
