"""Runs of agents, their events, dispatches and sessions. Times are ISO 8601, those of events in seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from ._model import CamelModel, JsonObject, Model

RunStatus = Literal["queued", "running", "input_required", "completed", "failed", "canceled"]
DispatchStatus = Literal["running", "completed", "partial", "failed", "canceled"]
OnBusy = Literal["enqueue", "reject", "interrupt"]

Part = Mapping[str, Any]
"""One of `text`, `inlineData`, `fileData` and `functionResponse`."""
Message = str | Part | Sequence[Part]
"""A text, a part, or parts."""


class StartOptions(TypedDict, total=False):
    """What a message may come with.

    Attributes:
        user_id: For whom the agent asks; by default itself.
        session_id: By default a new session.
        on_busy: What to do while another run of the session is at work: `enqueue` (default), `reject` or `interrupt`.
        state_delta: Changes of the session's state, passed to the agent.
        custom_metadata: Passed to the agent.
        metadata: At most 16 texts by name, shown with the run and for filters.
        idempotency_key: By default a new one, so that a call without an answer is sent again and starts nothing twice.

    """

    user_id: str | None
    session_id: str | None
    on_busy: OnBusy | None
    state_delta: Mapping[str, Any] | None
    custom_metadata: Mapping[str, Any] | None
    metadata: Mapping[str, str] | None
    idempotency_key: str | None


class RunOptions(StartOptions, total=False):
    """``join=False`` leaves out the events of agents that the answer names."""

    join: bool | None


class RunEvent(CamelModel):
    """An event of Google ADK. `author` is the agent's codename, `invocation_id` the run, `timestamp` in seconds."""

    id: str
    author: str
    invocation_id: str
    timestamp: float
    content: JsonObject | None = None
    partial: bool = False
    """A piece of a text that comes as a whole later."""
    custom_metadata: JsonObject | None = None
    error_code: str | None = None
    error_message: str | None = None

    @property
    def text(self) -> str:
        """The texts of its parts."""
        parts = (self.content or {}).get("parts") or []
        return "".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))


class RunError(CamelModel):
    """Why a run failed: `agent_error`, `node_lost`, `node_unavailable`, `run_timeout` or another code."""

    code: str
    message: str
    retryable: bool


class QuestionCall(CamelModel):
    """A call of the agent that waits for its response; `adk_request_confirmation` asks for an approval."""

    id: str
    name: str
    args: Any = None


class Question(CamelModel):
    """What a run asks while it is `input_required`."""

    calls: list[QuestionCall]
    text: str
    asked_at: str
    expires_at: str


class JoinedAgent(CamelModel):
    """An agent that was named, and its run."""

    agent: str
    run_id: str


class SkippedAgent(CamelModel):
    """An agent that was named and did not join; with `count` so many names of which none is listed."""

    agent: str
    reason: str
    count: int | None = None


class Run(CamelModel):
    """A run. `app_name` is the agent's codename; lists cut `message` to 200 characters and leave out `parts`."""

    run_id: str
    app_name: str
    user_id: str
    session_id: str
    status: RunStatus | str
    trigger: Literal["api", "mention", "dispatch", "synthesis", "report"] | str
    parent_run_id: str | None
    root_run_id: str
    goal_id: int | None
    depth: int
    attempt: int
    error: RunError | None
    joined: list[JoinedAgent]
    skipped: list[SkippedAgent]
    metadata: JsonObject
    question: Question | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    cancel_requested_at: str | None
    last_event_id: int
    message: str | None
    parts: list[JsonObject] | None = None


class DispatchCounts(Model):
    """Runs of a dispatch by their status."""

    total: int
    queued: int
    running: int
    input_required: int
    completed: int
    failed: int
    canceled: int


class DispatchedRun(CamelModel):
    """A run of a dispatch."""

    run_id: str
    agent: str
    status: RunStatus | str
    error: RunError | None = None


class Dispatch(CamelModel):
    """A message to every agent as one goal; `result` is the orchestrator's conclusion once it has ended."""

    goal_id: int
    user_id: str
    session_id: str
    status: DispatchStatus | str
    counts: DispatchCounts
    deadline: str
    runs: list[DispatchedRun]
    result: str | None


class Session(CamelModel):
    """The messages of a user and the answers of all agents under one id."""

    session_id: str
    user_id: str
    agents: list[str]
    runs: int
    created_at: str
    last_at: str
    last_message: str | None
    last_status: RunStatus | str


class SessionDeleted(CamelModel):
    """A session that is gone."""

    session_id: str
    user_id: str
    deleted: bool


class Schedule(CamelModel):
    """A message that goes to an agent, or to all, by the clock.

    Attributes:
        agent: Its codename; None: all agents.
        message: In lists the first 200 characters.
        parts: As they were sent, where it is shown alone.
        next_at: None: it fires no more, or is paused.
        failures: In a row, up to now; at ten it is paused.

    """

    id: str
    name: str | None
    agent: str | None
    dispatch: bool
    message: str
    parts: list[Any] | None = None
    cron: str | None
    timezone: str
    at: str | None
    session: str
    missed: str
    paused: bool
    paused_reason: str | None
    ends_at: str | None
    next_at: str | None
    last_at: str | None
    last_run_id: str | None
    last_goal_id: int | None
    failures: int
    owner: str
    created_at: str
    updated_at: str


class ScheduleDeleted(CamelModel):
    """A schedule that is gone."""

    id: str
    deleted: bool


class FiringError(CamelModel):
    """Why nothing was started, or the run failed."""

    code: str
    message: str


class ScheduledRun(CamelModel):
    """A planned time that has come. ``status`` is that of its run or dispatch, `refused` or `missed`."""

    planned_at: str
    fired_at: str
    run_id: str | None
    goal_id: int | None
    status: str
    error: FiringError | None


class Agent(CamelModel):
    """An agent that takes messages; `slug` is its path at the run gateway, `up` says whether its node answers."""

    slug: str
    codename: str
    role: str
    protocol: str
    up: bool
    last_seen: str | None
    skills: list[str]


@dataclass(frozen=True)
class RunAnswer:
    """A run as it ended, or as it asks (`input_required`), and what agents said in it."""

    run: Run
    events: list[RunEvent]

    @property
    def text(self) -> str:
        """What the agent said last."""
        said = [event.text for event in self.events if event.text]
        return said[-1] if said else ""
