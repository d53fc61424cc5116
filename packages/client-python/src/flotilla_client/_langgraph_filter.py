"""Values of LangGraph's store as filters see them.

A payload lists `facts` of its value: a digest for each path and its value, another for each path that is not null.
So equality is exact for every JSON value and every key, also for lists, objects, null, and keys with a dot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

Path = tuple[str, ...]
_RANGES = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
# Numbers of the platform are IEEE doubles.
_INTEGER_MAX = 2**53


def check_value(value: object) -> None:
    """Raises ValueError for what the platform would not give back as it is."""
    if not isinstance(value, Mapping):
        raise ValueError(f"a value is a dict, not a {type(value).__name__}")
    digest(value)


def digest(value: Any) -> str:
    """32 hex digits that stand for a JSON value. Raises ValueError for another value."""
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    """The value with 1.0 as 1, which are the same JSON number."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        if isinstance(value, int) and abs(value) > _INTEGER_MAX:
            raise ValueError(f"the integer {value} is beyond 2**53, where the platform rounds: store it as a text")
        return int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise ValueError(f"the key {wrong[0]!r} is no text, as JSON wants it")
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    raise ValueError(f"a {type(value).__name__} is no JSON: store a text, a number, a boolean, None, a list or a dict")


def facts_of(value: Mapping[str, Any], path: Path = ()) -> Iterator[str]:
    """The facts of a value, those of objects within it among them."""
    for key, inner in value.items():
        at = (*path, key)
        yield digest([at, inner])
        if inner is not None:
            yield digest([at])
        if isinstance(inner, Mapping):
            yield from facts_of(inner, at)


def filter_of(prefix: Sequence[str], asked: Mapping[str, Any] | None) -> dict[str, Any]:
    """The platform's filter for items below a namespace that match. Raises ValueError for an operator it has not."""
    must: list[dict[str, Any]] = [below(prefix)]
    must_not: list[dict[str, Any]] = []
    for path, operator, operand in _comparisons(asked or {}):
        if operator in _RANGES:
            must.append({"key": _payload_key(path, operator), "range": {_RANGES[operator]: _bound(operator, operand)}})
        elif operand is None:
            (must_not if operator == "$eq" else must).append(_has([path]))
        else:
            (must if operator == "$eq" else must_not).append(_has([path, operand]))
    return {"must": must, "must_not": must_not} if must_not else {"must": must}


def _comparisons(asked: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, str, Any]]:
    for key, wanted in asked.items():
        at = (*path, key)
        if not isinstance(wanted, Mapping) or not wanted:
            yield at, "$eq", wanted
        elif any(name.startswith("$") for name in wanted):
            for operator, operand in wanted.items():
                if operator not in ("$eq", "$ne", *_RANGES):
                    known = ", ".join(("$eq", "$ne", *_RANGES))
                    raise ValueError(f"the filter of {key!r} has the operator {operator!r}: it takes {known}")
                yield at, operator, operand
        else:
            yield from _comparisons(wanted, at)


def _has(fact: list[Any]) -> dict[str, Any]:
    return {"key": "facts", "match": {"value": digest(fact)}}


def _payload_key(path: Path, operator: str) -> str:
    if any(not part or "." in part for part in path):
        raise ValueError(f"{operator} cannot name the key {path[-1]!r}: a dot leads to a key within; rename it")
    return ".".join(("value", *path))


def _bound(operator: str, operand: Any) -> Any:
    """Numbers compare with numbers, ISO 8601 times with times."""
    if isinstance(operand, (int, float)) and not isinstance(operand, bool):
        return operand
    if isinstance(operand, str):
        try:
            datetime.fromisoformat(operand)
        except ValueError:
            pass
        else:
            return operand
    raise ValueError(f"{operator} takes a number or an ISO 8601 time, not {operand!r}")


def namespace_text(namespace: Sequence[str]) -> str:
    """A namespace as one text; no two share it."""
    return json.dumps(list(namespace), ensure_ascii=False, separators=(",", ":"))


def below(namespace: Sequence[str]) -> dict[str, Any]:
    """The condition for items of a namespace and of those within it; `[]` for every item of a store."""
    return {"key": "prefixes", "match": {"value": namespace_text(namespace)}}
