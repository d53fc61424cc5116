"""A receiver's memory of finished deliveries: keys against duplicates, the last sequence of each lane."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class FinishedDelivery:
    """A delivery that is done.

    Attributes:
        lane: The agent, or '' where one target is one lane.
        sequence: The last sequence of the lane, also when it is lower than before; None leaves it where it was.
        key: Names the event.

    """

    lane: str
    sequence: int | None
    key: str


class ReceiverStore(Protocol):
    """Keep it where the effects of your handler go, and write it in the same transaction.

    Then nothing is handled twice, not even after a crash. One store belongs to one target. The methods may be
    coroutines where the receiver is an AsyncReceiver.
    """

    def was_finished(self, key: str) -> bool | Awaitable[bool]:
        """Whether the event was handled."""

    def last_sequence(self, lane: str) -> int | Awaitable[int | None] | None:
        """The last finished sequence of this lane; None when nothing is known of it."""

    def finish(self, delivery: FinishedDelivery) -> Awaitable[None] | None:
        """Keeps key and sequence together."""


class MemoryStore:
    """A store that lasts as long as the process, with bounded memory.

    Args:
        keys_max: Keys that are kept; the oldest are dropped first.
        lanes_max: Lanes that are kept; the next gap of a dropped lane is not noticed.

    """

    def __init__(self, keys_max: int = 100_000, lanes_max: int = 10_000) -> None:
        self._keys_max = keys_max
        self._lanes_max = lanes_max
        self._keys: OrderedDict[str, None] = OrderedDict()
        self._lanes: OrderedDict[str, int] = OrderedDict()
        # Lanes finish side by side in threads.
        self._mutex = threading.Lock()

    def was_finished(self, key: str) -> bool:
        """Whether the event was handled."""
        return key in self._keys

    def last_sequence(self, lane: str) -> int | None:
        """The last finished sequence of this lane."""
        return self._lanes.get(lane)

    def finish(self, delivery: FinishedDelivery) -> None:
        """Keeps key and sequence."""
        with self._mutex:
            _keep(self._keys, delivery.key, None, self._keys_max)
            if delivery.sequence is not None:
                _keep(self._lanes, delivery.lane, delivery.sequence, self._lanes_max)


def _keep(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
