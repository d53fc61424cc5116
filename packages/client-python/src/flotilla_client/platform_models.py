"""Health, limits and state of the platform, records of its log, and webhook events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from ._model import JsonObject, Model

Access = Literal["admin", "member", "viewer"]
FiredKind = Literal["task.completed", "task.failed", "agent.spawned", "agent.terminated"]


class ComponentHealth(Model):
    """`none`: there is no such component."""

    status: Literal["pass", "fail", "none"] | str
    latency_ms: float | None


class HealthComponents(Model):
    """The parts of the vector gateway."""

    proxy: ComponentHealth
    api: ComponentHealth
    vector_engine: ComponentHealth
    relational_engine: ComponentHealth
    event_log: ComponentHealth


class Health(Model):
    """`degraded`: the relational engine alone is away."""

    status: Literal["pass", "degraded", "fail"] | str
    components: HealthComponents


class CollectionStats(Model):
    """`indexed_share` is from 0 to 1: the share of points that the graph index serves; the rest is scanned."""

    collection: str
    points: int
    index_bytes: int
    index_status: Literal["ready", "indexing", "rebuilding", "unavailable"] | str
    indexed_share: float


class SearchStats(Model):
    """Searches within the last `window_s` seconds."""

    p95_ms: float | None
    requests: int
    window_s: int


class Stats(Model):
    """Sizes and indexes of the collections, and the p95 of searches."""

    collections: list[CollectionStats]
    search: SearchStats
    as_of: str


class GatewaySession(Model):
    """A gateway key that is valid now, by its first six random characters."""

    key: str
    created_at: str
    expires_at: str


class RecentOperation(Model):
    """One of the last operations of an agent."""

    operation: str
    collection: str | None
    outcome: str
    status_code: int | None
    took_ms: float | None
    request_id: str
    occurred_at: str
    count: int


class DayQuota(Model):
    """Operations of this day in UTC; None is unlimited, or not counted."""

    limit: int | None
    used: int | None
    remaining: int | None
    resets_at: str


class BurstQuota(Model):
    """Operations a second; None is unlimited."""

    limit: int | None


class ConcurrentQuota(Model):
    """Operations at the same time; None is unlimited, or not counted."""

    limit: int | None
    running: int | None


class Quota(Model):
    """The limits of an agent and what it used of them."""

    day: DayQuota
    burst: BurstQuota
    concurrent: ConcurrentQuota


class AgentDebug(Model):
    """Sessions, last operations and limits of an agent."""

    agent_id: str
    role: str
    access: Access | str
    tier: str
    sessions: list[GatewaySession]
    operations: list[RecentOperation]
    quota: Quota


class CallerLimits(Model):
    """Requests a second and at the same time; None is unlimited."""

    burst: int | None
    concurrent: int | None


class Me(Model):
    """Who the caller is to the platform, and which routes it may call (`METHOD /path`)."""

    uid: str
    kind: Literal["agent", "person"] | str
    slug: str
    name: str
    role: Access | str
    permissions: list[str]
    limits: CallerLimits
    email: str | None = None
    must_change_password: bool = False


class NodeState(Model):
    """How the node of an agent is."""

    status: str
    last_seen: str | None


class AgentState(Model):
    """An agent; `node` is None where no node runs it."""

    uid: str
    slug: str
    name: str
    role: str
    node: NodeState | None


class LogState(Model):
    """Records that each group of readers has still to read."""

    groups: dict[str, int | None]


class BrainState(Model):
    """Agents, points of each collection, goals and runs by status, notes, webhooks and lag of the whole platform."""

    agents: list[AgentState]
    collections: dict[str, int | None]
    goals: dict[str, int]
    notes: int
    runs: dict[str, int]
    schedules: dict[str, int]
    webhooks: dict[str, JsonObject]
    log: LogState
    as_of: str


class PagedRecord(Model):
    """A record of a topic; `value` None deletes its key, `fault` says why it could not be decoded."""

    partition: int
    offset: int
    timestamp: str
    key: str | None
    headers: dict[str, str]
    value: Any
    fault: str | None = None


class RecordPage(Model):
    """A page of records and the position behind it."""

    records: list[PagedRecord]
    next: str


class TopicRecord(PagedRecord):
    """A record, and the position behind it: keep it with what you made of the record, and begin there the next time."""

    position: str


class Delivery(Model):
    """An accepted event for one target; sequences rise, not always by one."""

    target: str
    sequence: int


class Fired(Model):
    """The deliveries that the log holds; nothing is delivered yet."""

    idempotency_key: str
    deliveries: list[Delivery] = Field(default_factory=list)


@dataclass(frozen=True)
class WebhookEvent:
    """An event as a receiver gets it; `ts` is in seconds since 1970."""

    event: str
    agent: str
    task_id: str
    result: JsonObject
    ts: int
    idempotency_key: str
