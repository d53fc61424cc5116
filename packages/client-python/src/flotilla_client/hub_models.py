"""Notes and goals of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pydantic import Field

from ._model import Model

Priority = Literal["low", "normal", "high", "urgent"]
NoteStatus = Literal["active", "resolved", "archived"]
GoalStatus = Literal["pending", "active", "completed", "failed", "canceled"]


class Record(Model):
    """A note or a goal; times are ISO 8601, `author` is an agent id or the uid of a person."""

    id: int
    priority: Priority | str
    author: str
    created_at: str
    updated_at: str
    etag: str = Field(default="", exclude=True)
    """Names the version: a change with it as `if_match` is refused once there is another. Empty in lists."""


class Note(Record):
    """A note; `parent_id` is None where it replies to none."""

    subject: str
    body: str
    status: NoteStatus | str
    thread_id: str
    parent_id: int | None


class Goal(Record):
    """A goal."""

    title: str
    description: str
    status: GoalStatus | str


R = TypeVar("R")


@dataclass(frozen=True)
class Page(Generic[R]):
    """A page of a list; `next` is the cursor of the one behind it, None at the end."""

    items: list[R]
    next: str | None


@dataclass(frozen=True)
class Change(Generic[R]):
    """What a stream of changes tells.

    ``ready``: changes from now on will come. ``change``: ``record`` is the newest state. ``reset``: changes since the
    last event are not known, so list again. ``id`` is where a later stream goes on.
    """

    kind: Literal["ready", "change", "reset"] | str
    id: str | None
    record: R | None = None
