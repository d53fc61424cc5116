"""Makes the blocking form of calls that are written once, as coroutines."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ._engine import run

P = ParamSpec("P")
T = TypeVar("T")
G = TypeVar("G")
G_co = TypeVar("G_co", covariant=True)


class Blocking(Generic[G_co]):
    """The blocking form of a group of calls, which it holds on a blocking engine."""

    def __init__(self, calls: G_co) -> None:
        self._calls = calls


def blocking(body: Callable[Concatenate[G, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Blocking[G], P], T]:
    """A method that returns what the coroutine resolves with."""

    @functools.wraps(body)
    def method(self: Blocking[G], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(body(self._calls, *args, **kwargs))

    return method


def iterating(
    body: Callable[Concatenate[G, P], AsyncIterator[T]],
) -> Callable[Concatenate[Blocking[G], P], BlockingIterator[T]]:
    """A method that returns an iterator over what the asynchronous one gives."""

    @functools.wraps(body)
    def method(self: Blocking[G], /, *args: P.args, **kwargs: P.kwargs) -> BlockingIterator[T]:
        return BlockingIterator(body(self._calls, *args, **kwargs))

    return method


class BlockingIterator(Iterator[T]):
    """Iterates; `close`, or leaving it as a context manager, ends its connection at once."""

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items = items

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return run(_next(self._items))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Ends the iteration."""
        close = getattr(self._items, "aclose", None)
        if close is not None:
            run(close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
