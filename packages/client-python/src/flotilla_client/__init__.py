"""The client of Flotilla for agents: memory, notes, goals, runs, webhooks and records, blocking or for asyncio.

from flotilla_client import Flotilla

with Flotilla() as fleet:
    fleet.memory.remember("knowledgebase", "The ferry leaves at nine")
    print(fleet.memory.recall("knowledgebase", "When does the ferry leave?").results[0].payload["text"])
"""

from ._blocking import BlockingIterator
from ._points import without_audit_notes
from ._run_streams import AsyncEventStream, EventStream
from ._version import __version__
from .client import AsyncFlotilla, ClientOptions, Flotilla
from .errors import (
    BadRequest,
    Conflict,
    FieldError,
    FlotillaError,
    Forbidden,
    Invalid,
    NoAnswer,
    NoAnswerInTime,
    NotFound,
    PreconditionFailed,
    RateLimited,
    RunFailed,
    ServerFault,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from .hub_models import Change, Goal, Note, Page
from .memory_models import Accepted, Collection, Filter, Hit, Operation, Point, ScrolledPoint, Search, StoredPoint
from .platform_models import TopicRecord
from .run_models import Agent, Dispatch, Run, RunAnswer, RunEvent, RunOptions, Schedule, ScheduledRun, Session

__all__ = [
    "Accepted",
    "Agent",
    "AsyncEventStream",
    "AsyncFlotilla",
    "BadRequest",
    "BlockingIterator",
    "Change",
    "ClientOptions",
    "Collection",
    "Conflict",
    "Dispatch",
    "EventStream",
    "FieldError",
    "Filter",
    "Flotilla",
    "FlotillaError",
    "Forbidden",
    "Goal",
    "Hit",
    "Invalid",
    "NoAnswer",
    "NoAnswerInTime",
    "NotFound",
    "Note",
    "Operation",
    "Page",
    "Point",
    "PreconditionFailed",
    "RateLimited",
    "Run",
    "RunAnswer",
    "RunEvent",
    "RunFailed",
    "RunOptions",
    "Schedule",
    "ScheduledRun",
    "ScrolledPoint",
    "Search",
    "ServerFault",
    "Session",
    "StoredPoint",
    "TooLarge",
    "TopicRecord",
    "Unauthorized",
    "Unavailable",
    "__version__",
    "without_audit_notes",
]
