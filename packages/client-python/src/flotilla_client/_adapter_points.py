"""Points and filters of adapters: metadata that a filter can name, and deletions of whatever matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._adapters import settled
from .memory import AsyncMemory
from .memory_models import Filter


def nested(fields: Mapping[Any, Any], into: dict[str, Any] | None = None) -> dict[str, Any]:
    """Fields as a filter names them: the key `a.b` is the field `b` of `a`.

    Raises ValueError where two keys are one path, such as `a` and `a.b`.
    """
    made = {} if into is None else into
    for key, value in fields.items():
        *parents, last = str(key).split(".")
        at: Any = made
        for parent in parents:
            at = at.setdefault(parent, {}) if isinstance(at, dict) else None
        is_object = isinstance(value, Mapping)
        if not isinstance(at, dict) or (last in at and not (is_object and isinstance(at[last], dict))):
            raise ValueError(f"the metadata key {key!r} is the same path as another one: rename one of them")
        at[last] = nested(value, at.get(last)) if is_object else value
    return made


def both(selected: Filter, condition: Filter) -> Filter:
    """The filter, whose conditions are all in `must`, with one more."""
    return {"must": [*selected["must"], condition]}


async def delete_matching(memory: AsyncMemory, collection: str, selected: Filter) -> int:
    """Deletes every point that matches, and returns how many did."""
    deleted = 0
    while True:
        answer = await memory.delete(collection, filter=selected, wait=True)
        await settled(memory, answer)
        deleted += answer.deleted or 0
        if not answer.more:
            return deleted
