"""Fires events to the webhook relay, which answers its own machine alone and asks for no key."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ._blocking import Blocking, blocking
from ._core import Core
from ._request import endpoint
from .platform_models import Fired, FiredKind

_FIRE = endpoint(
    "webhook",
    "POST",
    "/api/v1/webhooks/fire",
    Fired,
    query="targets",
    body="event agent task_id result ts idempotency_key",
    open=True,
)


class AsyncWebhooks:
    """Events of agents for webhook targets."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def fire(
        self,
        event: FiredKind | str,
        *,
        agent: str,
        task_id: str,
        result: Mapping[str, Any] | None = None,
        ts: int | None = None,
        idempotency_key: str | None = None,
        targets: Sequence[str] | None = None,
    ) -> Fired:
        """Returns once the log holds a delivery for each target; nothing is delivered yet then.

        ``ts`` is in seconds since 1970, by default now; ``targets`` restricts the event to those. Repeated after a
        fault: receivers drop duplicates. Raises BadRequest `unknown_target`, and Invalid `secret_in_payload`
        where the result holds a secret.
        """
        body = {
            "event": event,
            "agent": agent,
            "task_id": task_id,
            "result": {} if result is None else result,
            # Made once: a repeated fire is the same event.
            "ts": int(time.time()) if ts is None else ts,
            "idempotency_key": idempotency_key,
        }
        # An empty list is sent as one, to be refused: it must not mean all.
        query = {"targets": None if targets is None else (list(targets) or [""])}
        return await self._core.call(_FIRE.request(query=query, body=body))


class Webhooks(Blocking[AsyncWebhooks]):
    """Events of agents for webhook targets."""

    fire = blocking(AsyncWebhooks.fire)
