"""Items of LangGraph's store as points of a collection: each operation once, as a coroutine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, PutOp, SearchItem, SearchOp

from ._adapters import VECTOR_SIZE, Caller, portions, settled
from ._langgraph_filter import below, facts_of, filter_of, namespace_text
from .memory import AsyncMemory
from .memory_models import ScrolledPoint, StoredPoint

_TEXT_MAX = 8_192
_HITS_MAX = 1_000
_DELETED_MAX = 1_000
# Each is answered with its vector, which is about 30 KB of JSON.
_READ_MAX = 100
# Values of one `except`, and conditions of it: a request has at most 1 MiB.
_EXCEPT_MAX, _EXCEPTS_MAX = 1_000, 10
# A read renews an item that has lived this share of its time; each renewal is a write.
_RENEWED_FROM = 0.1
# Points have vectors; searches by text leave out those that are not indexed.
_NO_VECTOR = [1.0] + [0.0] * (VECTOR_SIZE - 1)


@dataclass(frozen=True)
class Put:
    """A value to store, the text that searches find it by, if any, and its vector unless the platform makes that."""

    op: PutOp
    text: str | None
    vector: Sequence[float] | None = None


class Items:
    """Reads and writes items; its coroutines are run by ``caller``."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    async def get(self, ops: Sequence[GetOp]) -> list[Item | None]:
        """The items of each operation, or None."""
        if not ops:
            return []
        memory = await self.caller.memory()
        found = await self._stored(memory, [item_id(op.namespace, op.key) for op in ops])
        asked = {item_id(op.namespace, op.key) for op in ops if op.refresh_ttl}
        await self._renew(memory, [point for one, point in found.items() if one in asked])
        points = [found.get(item_id(op.namespace, op.key)) for op in ops]
        return [None if point is None else Item(**_fields(point)) for point in points]

    async def _stored(self, memory: AsyncMemory, ids: Iterable[str]) -> dict[str, StoredPoint]:
        found: dict[str, StoredPoint] = {}
        for part in portions(list(dict.fromkeys(ids)), _READ_MAX):
            answer = await memory.get_many(self.caller.collection, part)
            found.update((point.id, point) for point in answer.points)
        return found

    async def search(self, op: SearchOp, vector: Sequence[float] | None) -> list[SearchItem]:
        """Items below a namespace: by nearness where there is a query, else the newest first."""
        if op.limit < 0 or op.offset < 0:
            raise ValueError(f"limit is {op.limit} and offset {op.offset}: neither is below 0")
        if op.limit == 0:
            return []
        asked = filter_of(op.namespace_prefix, op.filter)
        memory = await self.caller.memory()
        points = await (self._nearest(memory, op, vector, asked) if op.query else self._newest(memory, op, asked))
        if op.refresh_ttl and (mortal := [point.id for point in points if _is_to_renew(point)]):
            await self._renew(memory, (await self._stored(memory, mortal)).values())
        return [SearchItem(**_fields(point), score=getattr(point, "score", None)) for point in points]

    async def _nearest(
        self, memory: AsyncMemory, op: SearchOp, vector: Sequence[float] | None, asked: dict[str, Any]
    ) -> Sequence[ScrolledPoint]:
        end = op.offset + op.limit
        if end > _HITS_MAX:
            raise ValueError(f"offset and limit of a search by text are {_HITS_MAX:,} together at most, not {end:,}")
        asked["must"].append({"key": "indexed", "match": {"value": True}})
        text = op.query if vector is None else None
        answer = await memory.search(self.caller.collection, text=text, vector=vector, limit=end, filter=asked)
        return answer.results[op.offset :]

    async def _newest(self, memory: AsyncMemory, op: SearchOp, asked: dict[str, Any]) -> Sequence[ScrolledPoint]:
        found: list[ScrolledPoint] = []
        skip = op.offset
        offset: str | None = None
        while True:
            page = await memory.scroll_page(
                self.caller.collection,
                offset=offset,
                limit=min(_HITS_MAX, skip + op.limit - len(found)),
                filter=asked,
                order_by={"key": "updated_at", "direction": "desc"},
            )
            found += page.points[skip:]
            skip -= min(skip, len(page.points))
            offset = page.next_offset
            if offset is None or len(found) >= op.limit:
                return found[: op.limit]

    async def put(self, puts: Sequence[Put]) -> None:
        """Stores values and deletes those that are None; returns once reads see it."""
        if not puts:
            return
        memory = await self.caller.memory()
        last = {item_id(put.op.namespace, put.op.key): put for put in puts}
        kept = {one: put for one, put in last.items() if put.op.value is not None}
        before = await self._stored(memory, kept)
        now = datetime.now(UTC)
        if points := [_point(one, put, before.get(one), now) for one, put in kept.items()]:
            await memory.remember(self.caller.collection, points)
        for part in portions([one for one in last if one not in kept], _DELETED_MAX):
            await settled(memory, await memory.delete(self.caller.collection, part, wait=True))

    async def _renew(self, memory: AsyncMemory, points: Iterable[StoredPoint]) -> None:
        """Writes the points again with their whole lifetime: the platform changes an expiry in no other way."""
        now = datetime.now(UTC)
        renewed = [_rewritten(point, now) for point in points if _is_to_renew(point)]
        if renewed:
            await memory.remember(self.caller.collection, renewed, wait=False)

    async def namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        """Distinct namespaces, sorted. Each page leaves out those that are known, as far as a filter holds them."""
        conditions = op.match_conditions or ()
        memory = await self.caller.memory()
        found: set[tuple[str, ...]] = set()
        matching: set[tuple[str, ...]] = set()
        offset: str | None = None
        while True:
            asked = {"must": [*map(below, _certain(conditions)), *_without(found)]}
            page = await memory.scroll_page(self.caller.collection, offset=offset, limit=_HITS_MAX, filter=asked)
            found.update(tuple(point.payload["namespace"]) for point in page.points)
            offset = page.next_offset
            if offset is None:
                break
        for namespace in found:
            if all(_matches(condition, namespace) for condition in conditions):
                matching.add(namespace[: op.max_depth])
        return sorted(matching)[op.offset : op.offset + op.limit]


def item_id(namespace: Sequence[str], key: str) -> str:
    """The id of a point: no name is too long for it, and no two names share one."""
    return sha256(namespace_text([*namespace, key]).encode("utf-8", "surrogatepass")).hexdigest()


def _point(point_id: str, put: Put, before: StoredPoint | None, now: datetime) -> dict[str, Any]:
    op = put.op
    payload = {
        "namespace": list(op.namespace),
        "prefixes": [namespace_text(op.namespace[:depth]) for depth in range(len(op.namespace) + 1)],
        "path": namespace_text(op.namespace),
        "key": op.key,
        "value": op.value,
        "facts": list(facts_of(op.value or {})),
        "indexed": put.text is not None,
        "created_at": now.isoformat() if before is None else before.payload.get("created_at", now.isoformat()),
        "updated_at": now.isoformat(),
        "ttl": op.ttl,
    }
    point: dict[str, Any] = {"id": point_id, "payload": payload}
    if op.ttl is not None:
        point["expires_at"] = _expiry(now, op.ttl)
    if put.text is None:
        point["vector"] = _NO_VECTOR
    elif put.vector is not None:
        point["vector"] = put.vector
    else:
        point["text"] = put.text[:_TEXT_MAX]
    return point


def _expiry(now: datetime, minutes: float) -> datetime:
    try:
        end = now + timedelta(minutes=minutes)
    except (OverflowError, ValueError, TypeError):
        end = now
    if end <= now:
        raise ValueError(f"ttl is a number of minutes above 0, not {minutes!r}")
    return end


def _is_to_renew(point: ScrolledPoint | StoredPoint) -> bool:
    ttl, end = point.payload.get("ttl"), point.expires_at
    if ttl is None or end is None:
        return False
    left = datetime.fromisoformat(end) - datetime.now(UTC)
    return left < timedelta(minutes=ttl) * (1 - _RENEWED_FROM)


def _rewritten(point: StoredPoint, now: datetime) -> dict[str, Any]:
    """A text stays a text, so that the platform still knows which embedder made its vector."""
    payload = dict(point.payload)
    expires_at = _expiry(now, payload["ttl"])
    if "text" in payload:
        return {"id": point.id, "text": payload.pop("text"), "payload": payload, "expires_at": expires_at}
    return {"id": point.id, "vector": point.vector, "payload": payload, "expires_at": expires_at}


def _fields(point: ScrolledPoint | StoredPoint) -> dict[str, Any]:
    payload = point.payload
    return {
        "namespace": tuple(payload["namespace"]),
        "key": payload["key"],
        "value": payload["value"],
        "created_at": datetime.fromisoformat(payload["created_at"]),
        "updated_at": datetime.fromisoformat(payload["updated_at"]),
    }


def _certain(conditions: Iterable[MatchCondition]) -> list[tuple[str, ...]]:
    """The namespaces that all matches are below: prefixes up to their first `*`, and the root."""
    certain: list[tuple[str, ...]] = [()]
    for condition in conditions:
        if condition.match_type == "prefix":
            path = tuple(condition.path)
            certain.append(path[: path.index("*")] if "*" in path else path)
    return certain


def _without(found: Iterable[tuple[str, ...]]) -> list[dict[str, Any]]:
    texts = sorted(map(namespace_text, found))[: _EXCEPT_MAX * _EXCEPTS_MAX]
    return [{"key": "path", "match": {"except": list(part)}} for part in portions(texts, _EXCEPT_MAX)]


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"a namespace matches by prefix or suffix, not by {condition.match_type!r}")
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
