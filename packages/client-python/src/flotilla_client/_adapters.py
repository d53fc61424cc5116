"""Shared by the adapters of agent frameworks: calls over either client, the collection, the size of vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from ._engine import run
from .client import AsyncFlotilla, Flotilla
from .errors import Conflict, NotFound, ServerFault
from .memory import AsyncMemory
from .memory_models import Accepted

T = TypeVar("T")

VECTOR_SIZE = 1_536
_LIMITS_SECONDS = 30
Client = Flotilla | AsyncFlotilla


class Caller:
    """Runs coroutines, each written once over ``AsyncMemory``, for the client that the user has.

    Attributes:
        client: The client as it was given, or one made from the environment.

    """

    def __init__(self, client: Client | None, collection: str, create_collection: bool = True) -> None:
        if not isinstance(client, (Flotilla, AsyncFlotilla, type(None))):
            raise TypeError(f"client is a Flotilla or an AsyncFlotilla, not a {type(client).__name__}")
        # Frameworks do not expect refusals of the agent's limits, which pass within a second.
        self.client: Client = Flotilla(wait_out_limits=_LIMITS_SECONDS) if client is None else client
        self._creates = create_collection
        self._is_ready = False
        self.collection = collection

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result, for a caller that blocks. Raises RuntimeError over an AsyncFlotilla, which needs its own loop."""
        if isinstance(self.client, Flotilla):
            return run(work)
        work.close()
        raise RuntimeError(
            "an AsyncFlotilla cannot be used by blocking methods: await the asynchronous ones, or give a Flotilla"
        )

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """The result, for a task; work over a Flotilla runs in a thread."""
        if isinstance(self.client, Flotilla):
            return await asyncio.to_thread(run, work)
        return await work

    async def memory(self) -> AsyncMemory:
        """The memory; the first call makes the collection where it is missing. For work that is run by this caller."""
        fleet = self.client._calls if isinstance(self.client, Flotilla) else self.client
        if self._creates and not self._is_ready:
            try:
                await fleet.memory.collections.get(self.collection)
            except NotFound:
                try:
                    await fleet.memory.collections.create(self.collection)
                except Conflict as error:
                    if error.code != "collection_exists":  # Another program was faster.
                        raise
            self._is_ready = True
        return fleet.memory


async def settled(memory: AsyncMemory, accepted: Accepted) -> None:
    """Returns once reads see the write. Raises ServerFault `operation_failed`."""
    if accepted.status != "applied":
        done = await memory.wait_for(accepted)
        if done.status == "failed":
            raise ServerFault("operation_failed", 502, done.error or "the operation failed")


def padded(vector: Sequence[float]) -> list[float]:
    """The vector with zeros up to 1,536 numbers, which change no cosine. Raises ValueError for a longer one."""
    if len(vector) > VECTOR_SIZE:
        hint = f"choose a model of at most {VECTOR_SIZE}, or ask it for dimensions={VECTOR_SIZE}"
        raise ValueError(f"the embedding has {len(vector)} numbers, and the platform takes {VECTOR_SIZE}: {hint}")
    return [*map(float, vector), *([0.0] * (VECTOR_SIZE - len(vector)))]


def portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in order, at most so many at a time. Raises ValueError for a size below 1."""
    if size < 1:
        raise ValueError(f"{size} at a time is none: give 1 or more")
    return (items[at : at + size] for at in range(0, len(items), size))
