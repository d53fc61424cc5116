"""The operations of the run gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from ._request import Request, endpoint
from .run_models import (
    Agent,
    Dispatch,
    Message,
    Run,
    RunEvent,
    RunOptions,
    Session,
    SessionDeleted,
    StartOptions,
)

_MESSAGE = "appName userId sessionId newMessage streaming stateDelta customMetadata metadata onBusy"

# The idempotency key of a message attaches a repeat to the run that there is.
RUN = endpoint("run", "POST", "/{slug}/run", list[RunEvent], query="join", body=_MESSAGE)
START = endpoint("run", "POST", "/{slug}/run", Run, query="join", body=_MESSAGE)
LIST = endpoint("run", "GET", "/runs", list[Run], query="limit cursor agent status userId sessionId goalId rootRunId")
SHOW = endpoint("run", "GET", "/runs/{runId}", Run)
EVENTS = endpoint("run", "GET", "/runs/{runId}/events", RunEvent, query="after join")
# A run that has ended does not change, so canceling twice does no harm.
CANCEL = endpoint("run", "POST", "/runs/{runId}/cancel", Run)
INPUT = endpoint("run", "POST", "/runs/{runId}/input", Run, body="message parts")
DISPATCH = endpoint("run", "POST", "/dispatch", Dispatch, body="userId sessionId message metadata")
DISPATCH_SHOW = endpoint("run", "GET", "/dispatches/{goalId}", Dispatch)
DISPATCH_EVENTS = endpoint("run", "GET", "/dispatches/{goalId}/events", RunEvent, query="after")
DISPATCH_CANCEL = endpoint("run", "POST", "/dispatches/{goalId}/cancel", Dispatch)
SESSIONS = endpoint("run", "GET", "/sessions", list[Session], query="limit cursor userId agent")
SESSION_EVENTS = endpoint(
    "run", "GET", "/sessions/{sessionId}/events", list[RunEvent], query="limit cursor userId after"
)
# One that is gone is not found: only the caller knows whether an answer was lost.
SESSION_DELETE = endpoint("run", "DELETE", "/sessions/{sessionId}", SessionDeleted, query="userId", repeatable=False)
AGENTS = endpoint("run", "GET", "/agents", list[Agent])
AGENT = endpoint("run", "GET", "/agents/{slug}", Agent)


def run_request(agent: str, message: Message, options: RunOptions) -> tuple[Request[list[RunEvent]], bool | None]:
    """The request whose answer is the stream of a new run's events, and what its `join` says."""
    join = options.get("join")
    headers = {"idempotency-key": options.get("idempotency_key") or str(uuid4()), "accept": "text/event-stream"}
    body = {**_fields(agent, message, options), "streaming": True}
    query = {} if join in (None, True) else {"join": False}
    return RUN.request(parts={"slug": agent.lower()}, query=query, body=body, headers=headers), join


def start_request(agent: str, message: Message, options: StartOptions) -> Request[Run]:
    """The request that is answered as soon as a run is accepted."""
    headers = {"idempotency-key": options.get("idempotency_key") or str(uuid4()), "prefer": "respond-async"}
    return START.request(parts={"slug": agent.lower()}, body=_fields(agent, message, options), headers=headers)


def content_of(message: Message) -> dict[str, Any]:
    """A message as ADK's content."""
    if isinstance(message, str):
        return {"role": "user", "parts": [{"text": message}]}
    return {"role": "user", "parts": [message] if isinstance(message, Mapping) else list(message)}


def _fields(agent: str, message: Message, options: StartOptions) -> dict[str, Any]:
    known = RunOptions.__annotations__
    if unknown := [name for name in options if name not in known]:
        raise TypeError(f"a message has no option {unknown[0]!r}")
    return {
        "appName": agent,
        "newMessage": content_of(message),
        "userId": options.get("user_id"),
        "sessionId": options.get("session_id"),
        "onBusy": options.get("on_busy"),
        "stateDelta": options.get("state_delta"),
        "customMetadata": options.get("custom_metadata"),
        "metadata": options.get("metadata"),
    }
