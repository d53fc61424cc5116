"""Points as they are sent, in parts that a request takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from ._request import without_none
from .memory_models import Filter, Point

# Of one upsert: a request of this size is done long before its time is over.
PART_POINTS_MAX = 1_000
PART_BYTES_MAX = 4 * 1_048_576

# What the platform makes audit notes of: the payload of each names one of them as `operation`.
AUDITED_OPERATIONS = (
    "handshake",
    "verify",
    "upsert",
    "payload",
    "search",
    "search-pg",
    "scroll",
    "count",
    "get",
    "delete",
    # In a summary of refused requests that were not all of one operation.
    "several",
)


def point_fields(given: Point | Mapping[str, Any], new_id: bool = False) -> dict[str, Any]:
    """The fields of a point. Raises ValueError without an id, or unless there is exactly one of vector and text."""
    names = ("id", "vector", "text", "payload", "expires_at")
    if isinstance(given, Point):
        fields = {name: getattr(given, name) for name in names}
    else:
        if unknown := [name for name in given if name not in names]:
            raise ValueError(f"a point has no {unknown[0]!r}")
        fields = dict(given)
    fields = without_none(fields)
    if "id" not in fields:
        if not new_id:
            raise ValueError("a point needs an id")
        fields["id"] = str(uuid4())
    if ("vector" in fields) == ("text" in fields):
        raise ValueError(f"the point {fields['id']!r} needs a vector or a text, and not both")
    if "expires_at" in fields:
        fields["expires_at"] = time_text(fields["expires_at"])
    return fields


def time_text(when: datetime | str) -> str:
    """ISO 8601 with its zone. Raises ValueError for a time without one: whose clock it is by is not known."""
    if isinstance(when, str):
        return when
    if when.tzinfo is None:
        raise ValueError("expires_at needs a time zone: datetime.now(UTC) + …")
    return when.isoformat(timespec="milliseconds")


def parts(points: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Points as JSON, in the groups of one request each."""
    part: list[bytes] = []
    size = 0
    for point in points:
        if part and (len(part) == PART_POINTS_MAX or size + len(point) > PART_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(point)
        size += len(point)
    if part:
        yield part


def without_audit_notes(collection: str, given: Filter | None = None) -> Filter | None:
    """The filter of a search without the platform's audit notes, which `fleet_notes` alone has.

    The given filter as it is where it asks for them: by the tag `auth` or `vector`, or by an `operation`.
    """
    if collection != "fleet_notes" or (given is not None and _asks_for_audit_notes(given)):
        return given
    audited = [{"key": "operation", "match": {"value": value}} for value in AUDITED_OPERATIONS]
    return {**(given or {}), "must_not": [*(given or {}).get("must_not", ()), *audited]}


def _asks_for_audit_notes(condition: Mapping[str, Any]) -> bool:
    if "is_empty" in condition:
        return False
    if "key" not in condition:
        inner = (*condition.get("must", ()), *condition.get("should", ()))
        return any(_asks_for_audit_notes(one) for one in inner)
    if condition["key"] == "operation":
        return True
    match = condition.get("match", {})
    named = [match["value"]] if "value" in match else match.get("any", ())
    return condition["key"] == "tags" and any(value in ("auth", "vector") for value in named)
