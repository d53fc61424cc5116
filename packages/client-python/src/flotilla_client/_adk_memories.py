"""ADK's events and memories as points of an app and user."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import uuid4

from google.adk.memory.memory_entry import MemoryEntry
from google.genai.types import Content, Part
from pydantic_core import to_jsonable_python

from .memory_models import Filter, Hit, Point, ScrolledPoint

if TYPE_CHECKING:
    from google.adk.events.event import Event

STORED, DELETED = "adk", "adk-deleted"
# In characters: the platform embeds 16,384, and a payload has 64 KiB.
_PIECE_MAX = 8_000


@dataclass(frozen=True)
class Scope:
    """Whose memories: nothing of one app and user is found by another."""

    app_name: str
    user_id: str

    def matching(self, adapters: Sequence[str], memory_ids: Sequence[str] | None = None) -> Filter:
        """The points of this app and user, all or those of some memories."""
        must = [
            {"key": "adapter", "match": {"any": list(adapters)}},
            {"key": "app_name", "match": {"value": self.app_name}},
            {"key": "user_id", "match": {"value": self.user_id}},
        ]
        if memory_ids is not None:
            must.append({"key": "memory_id", "match": {"any": list(memory_ids)}})
        return {"must": must}

    def point_id(self, *names: str | int) -> str:
        """Of a fixed length, and never the same for two scopes, whatever characters their names have."""
        whole = json.dumps([self.app_name, self.user_id, *names])
        return f"adk-{sha256(whole.encode()).hexdigest()}"


@dataclass(frozen=True)
class Memory:
    """A text to remember, and the payload of its answers."""

    memory_id: str
    session_id: str
    text: str
    author: str | None
    role: str | None
    timestamp: str | None
    custom_metadata: Mapping[str, object]


def memories_of_events(
    events: Iterable[Event], session_id: str, custom_metadata: Mapping[str, object]
) -> Iterator[Memory]:
    """The events that have a text, and are no part of one that comes whole."""
    for event in events:
        text = _text(event.content)
        if not text or event.partial:
            continue
        timestamp = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
        memory_id = event.id or sha256(json.dumps([event.author, timestamp, text]).encode()).hexdigest()
        role = event.content.role if event.content else None
        yield Memory(memory_id, session_id, text, event.author, role, timestamp, custom_metadata)


def memories_of_entries(entries: Iterable[MemoryEntry], custom_metadata: Mapping[str, object]) -> Iterator[Memory]:
    """The memories of a caller. Raises ValueError for one without a text."""
    for entry in entries:
        text = _text(entry.content)
        if not text:
            raise ValueError(f"the memory {entry.id!r} has no text: only texts are stored")
        metadata = {**custom_metadata, **entry.custom_metadata}
        yield Memory(entry.id or str(uuid4()), "", text, entry.author, entry.content.role, entry.timestamp, metadata)


def _text(content: Content | None) -> str:
    """The text parts of a content, without the model's thoughts."""
    parts = (content.parts if content else None) or []
    return "\n".join(part.text for part in parts if part.text and part.text.strip() and not part.thought)


def points_of(scope: Scope, memory: Memory, expires_at: datetime | None) -> Iterator[Point]:
    """One point, or several of a text that is too long for one."""
    fields = {
        "adapter": STORED,
        "app_name": scope.app_name,
        "user_id": scope.user_id,
        "session_id": memory.session_id,
        "memory_id": memory.memory_id,
        "author": memory.author,
        "role": memory.role,
        "timestamp": memory.timestamp,
        "custom_metadata": to_jsonable_python(dict(memory.custom_metadata)),
    }
    payload = {name: value for name, value in fields.items() if value not in (None, {})}
    for number, text in enumerate(_pieces(memory.text)):
        point_id = scope.point_id(STORED, memory.session_id, memory.memory_id, number)
        yield Point(id=point_id, text=text, payload={**payload, "piece": number}, expires_at=expires_at)


def _pieces(text: str) -> Iterator[str]:
    while len(text) > _PIECE_MAX:
        # Between two words, where there is such a place in the second half.
        end = max(text.rfind(" ", _PIECE_MAX // 2, _PIECE_MAX), text.rfind("\n", _PIECE_MAX // 2, _PIECE_MAX)) + 1
        yield text[: end or _PIECE_MAX]
        text = text[end or _PIECE_MAX :]
    if text.strip():
        yield text


def is_stored(point: Point, stored: ScrolledPoint | None) -> bool:
    """Whether writing the point would change nothing."""
    if stored is None or stored.expires_at is not None or point.expires_at is not None:
        return False
    return stored.payload == {**(point.payload or {}), "text": point.text}


def entry_of(hit: Hit) -> MemoryEntry:
    """The memory of a hit."""
    payload = hit.payload
    return MemoryEntry(
        id=payload["memory_id"],
        content=Content(role=payload.get("role"), parts=[Part(text=payload["text"])]),
        author=payload.get("author"),
        timestamp=payload.get("timestamp"),
        custom_metadata=payload.get("custom_metadata", {}),
    )
