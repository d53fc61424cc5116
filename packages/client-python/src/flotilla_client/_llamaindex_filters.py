"""LlamaIndex's metadata filters in the words of the vector gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

Condition = dict[str, Any]
_Operator = Callable[[str, MetadataFilter], Condition]

_LISTS = {FilterCondition.AND: "must", FilterCondition.OR: "should", FilterCondition.NOT: "must_not"}


def conditions_of(filters: MetadataFilters, prefix: str) -> Condition | None:
    """The filters as one condition over payload keys that begin with ``prefix``; None where there are none.

    Operators mean what they do in LlamaIndex's own SimpleVectorStore: a node without the key meets `!=`, `nin` and
    `is_empty` alone. Raises ValueError for a value that its operator does not take, and for `text_match`.
    """
    listed: list[Condition] = []
    for one in filters.filters:
        made = conditions_of(one, prefix) if isinstance(one, MetadataFilters) else _condition(one, prefix + one.key)
        if made is not None:
            listed.append(made)
    return {_LISTS[filters.condition or FilterCondition.AND]: listed} if listed else None


def _condition(given: MetadataFilter, key: str) -> Condition:
    return _OPERATORS[given.operator](key, given)


def _equals(key: str, given: MetadataFilter) -> Condition:
    if given.value is None or isinstance(given.value, list):
        raise _unfit(given, "one text or number: use is_empty for nothing, and any, all, in or nin for a list")
    return {"key": key, "match": {"value": given.value}}


def _any(key: str, given: MetadataFilter) -> Condition:
    if not isinstance(given.value, list):
        raise _unfit(given, "a list")
    # The gateway takes no empty list: nothing is one of its values.
    return {"key": key, "match": {"any": given.value}} if given.value else {"must_not": [{"must": []}]}


def _all(key: str, given: MetadataFilter) -> Condition:
    if not isinstance(given.value, list):
        raise _unfit(given, "a list")
    return {"must": [{"key": key, "match": {"value": value}} for value in given.value]}


def _not(operator: _Operator) -> _Operator:
    def condition(key: str, given: MetadataFilter) -> Condition:
        return {"must_not": [operator(key, given)]}

    return condition


def _range(bound: str) -> _Operator:
    def condition(key: str, given: MetadataFilter) -> Condition:
        if not isinstance(given.value, (int, float)) and not _is_time(given.value):
            raise _unfit(given, "a number, or a time such as 2026-01-31T12:00:00Z")
        return {"key": key, "range": {bound: given.value}}

    return condition


def _words(key: str, given: MetadataFilter) -> Condition:
    if not isinstance(given.value, str) or not given.value.strip():
        raise _unfit(given, "a text of at least one word")
    return {"key": key, "match": {"text": given.value}}


def _text_match(_: str, given: MetadataFilter) -> Condition:
    instead = "use text_match_insensitive, which finds whole words"
    raise ValueError(f"the platform compares words whatever their case: for {given.key!r} {instead}")


def _is_empty(key: str, _: MetadataFilter) -> Condition:
    return {"should": [{"is_empty": {"key": key}}, {"key": key, "match": {"value": ""}}]}


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def _unfit(given: MetadataFilter, wanted: str) -> ValueError:
    return ValueError(f"the filter {given.operator.value!r} of {given.key!r} takes {wanted}, not {given.value!r}")


_OPERATORS: Mapping[FilterOperator, _Operator] = {
    FilterOperator.EQ: _equals,
    FilterOperator.NE: _not(_equals),
    FilterOperator.GT: _range("gt"),
    FilterOperator.GTE: _range("gte"),
    FilterOperator.LT: _range("lt"),
    FilterOperator.LTE: _range("lte"),
    FilterOperator.IN: _any,
    FilterOperator.NIN: _not(_any),
    FilterOperator.ANY: _any,
    FilterOperator.ALL: _all,
    FilterOperator.CONTAINS: _equals,
    FilterOperator.TEXT_MATCH: _text_match,
    FilterOperator.TEXT_MATCH_INSENSITIVE: _words,
    FilterOperator.IS_EMPTY: _is_empty,
}
