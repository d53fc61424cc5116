"""Shared by adapters: metadata that a filter can name, deletions and values of whatever matches, embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ._adapters import settled
from ._json import json_of
from .memory import AsyncMemory
from .memory_models import Filter

# Of `any` and `except`.
_VALUES_PER_FILTER = 1_000
# Of one request for embeddings, whose body may have 1 MiB.
_TEXTS_MAX = 1_000
_TEXT_BYTES_MAX = 1_000_000


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


async def embedded(memory: AsyncMemory, texts: Iterable[str]) -> list[list[float]]:
    """A vector of the platform's embedder for each text, in as many requests as their size needs."""
    vectors: list[list[float]] = []
    for part in _requests(texts):
        answer = await memory.embeddings(part)
        vectors += [one.embedding for one in answer.data if isinstance(one.embedding, list)]
    return vectors


def _requests(texts: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for text in texts:
        length = len(json_of(text))
        if part and (len(part) == _TEXTS_MAX or size + length > _TEXT_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(text)
        size += length
    if part:
        yield part
