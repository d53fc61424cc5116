"""Requests as frozen values: one declaration for each operation of the platform, shared by both clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, TypeAdapter

from ._json import json_of

T = TypeVar("T")

Service = Literal["vector", "hub", "run", "main", "webhook"]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Query = tuple[tuple[str, str], ...]


def path_part(value: str | int) -> str:
    """An id as one part of a path. Raises ValueError for nothing, and for dots that lead elsewhere."""
    part = quote(str(value), safe="")
    if part in ("", ".", ".."):
        raise ValueError(f"{value!r} is no id")
    return part


@dataclass(frozen=True)
class Request(Generic[T]):
    """One call, ready to be sent any number of times."""

    endpoint: Endpoint[T]
    path: str
    query: Query = ()
    content: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    repeatable: bool = True

    @property
    def target(self) -> str:
        """The path with its query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class Envelope(BaseModel, Generic[T]):
    """How the main API wraps its answers."""

    data: T


@dataclass(frozen=True)
class Endpoint(Generic[T]):
    """An operation of an interface: what a request may hold, and what its answer is."""

    service: Service
    method: Method
    path: str
    """Below the address of the service, with `{name}` for parts that a request fills in."""
    answer: Any
    """The type of the answer."""
    query: frozenset[str] = frozenset()
    body: frozenset[str] = frozenset()
    repeatable: bool = True
    """Whether doing it twice does no harm; 429 is always safe, since nothing was done."""
    answers: frozenset[int] = frozenset()
    """Statuses other than 2xx whose JSON is an answer, not a fault."""
    open: bool = False
    """Whether it takes no credential."""
    enveloped: bool = False
    """Whether the answer is `{ok, data}`, as at the main API."""

    @cached_property
    def adapter(self) -> TypeAdapter[T]:
        """Reads answers."""
        return TypeAdapter(self.answer)

    @cached_property
    def enveloped_adapter(self) -> TypeAdapter[Envelope[T]]:
        """Reads answers of the main API."""
        return TypeAdapter(Envelope[self.answer])  # type: ignore[name-defined]

    def request(
        self,
        *,
        parts: Mapping[str, str | int] | None = None,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
        repeatable: bool | None = None,
    ) -> Request[T]:
        """A request; fields that are None are left out. Raises ValueError for what cannot be sent."""
        named = {name: path_part(value) for name, value in (parts or {}).items()}
        given = without_none(body)
        for names, known in ((query or {}, self.query), (given, self.body)):
            if unknown := [name for name in names if name not in known and not name.startswith("metadata.")]:
                raise ValueError(f"{self.method} {self.path} has no {unknown[0]!r}")
        if content is None and body is not None:
            content = json_of(given)
        return Request(
            self,
            self.path.format(**named),
            pairs(query or {}),
            content,
            tuple((name, value) for name, value in (headers or {}).items() if value is not None),
            self.repeatable if repeatable is None else repeatable,
        )


def endpoint(
    service: Service,
    method: Method,
    path: str,
    answer: type[T],
    *,
    query: str = "",
    body: str = "",
    **more: Any,
) -> Endpoint[T]:
    """Declares an operation; `query` and `body` name the fields of a request, separated by blanks."""
    made = Endpoint[T](service, method, path, answer, frozenset(query.split()), frozenset(body.split()), **more)
    ENDPOINTS.append(made)
    return made


ENDPOINTS: list[Endpoint[Any]] = []
"""Every operation that this package calls: a test holds them to the OpenAPI documents."""


def without_none(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields that were given."""
    return {name: value for name, value in (fields or {}).items() if value is not None}


def pairs(query: Mapping[str, Any]) -> Query:
    """A query as it is sent: a list names its field several times."""
    return tuple(
        (name, str(one).lower() if isinstance(one, bool) else str(one))
        for name, value in query.items()
        for one in (value if isinstance(value, (list, tuple)) else [value])
        if one is not None
    )
