"""Points and filters of adapters: metadata that a filter can name, deletions and values of whatever matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._adapters import settled
from .memory import AsyncMemory
from .memory_models import Filter

# Of `any` and `except`.
_VALUES_PER_FILTER = 1_000


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


async def distinct_values(
    memory: AsyncMemory,
    collection: str,
    selected: Filter,
    unseen: Callable[[list[str]], Filter],
    values_of: Callable[[Mapping[str, Any]], list[str]],
) -> list[str]:
    """The values of a field, sorted, without reading every point that has one.

    Each page is of the points that have a value which is not among those seen: ``unseen`` makes their filter.
    """
    seen: dict[str, None] = {}
    while len(seen) < _VALUES_PER_FILTER:
        page = await memory.scroll_page(collection, filter=selected, limit=100)
        seen.update((value, None) for point in page.points for value in values_of(point.payload))
        if page.next_offset is None:
            return sorted(seen)
        selected = unseen(list(seen)[:_VALUES_PER_FILTER])
    async for point in memory.scroll(collection, filter=selected, limit=1_000):
        seen.update((value, None) for value in values_of(point.payload))
    return sorted(seen)
