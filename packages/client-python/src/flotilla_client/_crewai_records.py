"""CrewAI's memory records as points, and what it selects them by as filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from crewai.memory.types import MemoryRecord
from pydantic_core import from_json, to_jsonable_python

from ._adapter_points import nested
from ._adapters import VECTOR_SIZE, padded
from .memory_models import Filter, ScrolledPoint, StoredPoint

# Kept as fields of their own: the text for readers, the time because it changes alone.
_APART = {"content", "last_accessed"}


def point_of(record: MemoryRecord) -> dict[str, Any]:
    """A record as a point: the record itself as JSON, and next to it the fields that filters name."""
    path = path_of(record.scope)
    payload = {
        "adapter": "crewai",
        "record_id": record.id,
        "scope": path,
        "scopes": ancestors(path),
        "categories": record.categories,
        "metadata": nested(to_jsonable_python(record.metadata)),
        "updated_at": time_of(record.created_at),
        "last_accessed": time_of(record.last_accessed),
        "embedded": bool(record.embedding),
        "dimensions": len(record.embedding or ()),
        "record": record.model_dump_json(exclude=_APART),
    }
    if record.content:
        payload["text"] = record.content
    # A point has a direction: this one is in no search, because it is not `embedded`.
    vector = padded(record.embedding) if record.embedding else [1.0] + [0.0] * (VECTOR_SIZE - 1)
    return {"id": record.id, "vector": vector, "payload": payload}


def record_of(point: ScrolledPoint | StoredPoint) -> MemoryRecord:
    """The record of a point."""
    payload = point.payload
    fields = {
        **from_json(payload["record"]),
        "content": payload.get("text", ""),
        "created_at": _naive(payload["updated_at"]),
        "last_accessed": _naive(payload["last_accessed"]),
    }
    if point.vector is not None and payload["embedded"]:
        fields["embedding"] = point.vector[: payload["dimensions"]]
    return MemoryRecord.model_validate(fields)


def matching(
    scope_prefix: str | None = None,
    categories: Sequence[str] | None = None,
    metadata_filter: Mapping[str, Any] | None = None,
    older_than: datetime | None = None,
) -> Filter:
    """The records that meet all that is given. Raises ValueError for metadata that no filter can name."""
    must: list[dict[str, Any]] = [{"key": "adapter", "match": {"value": "crewai"}}]
    if scope_prefix is not None and path_of(scope_prefix) != "/":
        must.append({"key": "scopes", "match": {"value": path_of(scope_prefix)}})
    if categories:
        must.append({"key": "categories", "match": {"any": list(categories)}})
    if older_than is not None:
        must.append({"key": "updated_at", "range": {"lt": time_of(older_than)}})
    for key, value in (metadata_filter or {}).items():
        if value is None:
            must.append({"is_empty": {"key": f"metadata.{key}"}})
        elif isinstance(value, (str, int, float)):
            must.append({"key": f"metadata.{key}", "match": {"value": value}})
        else:
            raise ValueError(
                f"metadata_filter compares texts, numbers and booleans: {key!r} is a {type(value).__name__}"
            )
    return {"must": must}


def path_of(scope: str) -> str:
    """A scope with one slash at its beginning and none at its end."""
    return "/" + "/".join(part for part in scope.split("/") if part)


def ancestors(path: str) -> list[str]:
    """The scopes that hold a path, from the root to itself."""
    parts = path.strip("/").split("/") if path != "/" else []
    return ["/", *("/" + "/".join(parts[: end + 1]) for end in range(len(parts)))]


def time_of(when: datetime) -> str:
    """ISO 8601 in UTC, which CrewAI's times without a zone are in, too."""
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _naive(text: str) -> datetime:
    """CrewAI subtracts times from ``datetime.utcnow()``, which works for times without a zone alone."""
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
