"""Google's Agent Development Kit: a memory service in a collection of the platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

try:
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse

    from ._adk_memories import (
        DELETED,
        STORED,
        Memory,
        Scope,
        entry_of,
        is_stored,
        memories_of_entries,
        memories_of_events,
        points_of,
    )
except ImportError as error:
    raise ImportError(
        "flotilla_client.adk needs Google ADK: pip install 'flotilla-client[adk]'", name=error.name
    ) from error

from ._adapter_points import delete_matching
from ._adapters import VECTOR_SIZE, Caller, Client, portions, settled
from .client import Flotilla
from .memory_models import Point, ScrolledPoint

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions.session import Session

_KNOWN_OPTIONS = ("collection", "limit", "min_score", "agent_id")
_QUESTION_MAX = 16_384
# A filter takes at most 1,000 values of `any`.
_IDS_PER_FILTER = 500


class FlotillaMemoryService(BaseMemoryService):
    """Memories of ADK agents, each the text of an event, found by meaning with the platform's embedder.

    Made by hand, or by ADK from the URI `flotilla://?collection=NAME`, which may have `limit`, `min_score` and
    `agent_id`, too. The collection is made where it is missing. Calls raise FlotillaError.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        client: Client | None = None,
        collection: str = "adk-memory",
        limit: int = 10,
        min_score: float | None = None,
        agents_dir: str | None = None,
    ) -> None:
        """Without a client, a Flotilla with the settings of the environment.

        ``limit`` memories, 1 to 1,000, answer a search, none below the cosine ``min_score``. ADK passes ``agents_dir``,
        which is not used. Raises ValueError for a URI that is not understood.
        """
        given = {} if uri is None else _options(uri)
        if client is None and "agent_id" in given:
            client = Flotilla(agent_id=given["agent_id"], wait_out_limits=30)
        self.collection = given.get("collection", collection)
        self.limit = _number(int, "limit", given.get("limit", limit))
        if not 1 <= self.limit <= 1_000:
            raise ValueError(f"limit is 1 to 1,000, not {self.limit}")
        score = given.get("min_score", min_score)
        self.min_score = None if score is None else _number(float, "min_score", score)
        self._caller = Caller(client, self.collection)

    @property
    def client(self) -> Client:
        """The client of the platform."""
        return self._caller.client

    async def add_session_to_memory(self, session: Session) -> None:
        """Stores the texts of a session's events; those that are stored already are not sent again."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Stores the texts of events, except those whose memory was deleted.

        ``custom_metadata`` comes back with each memory; its `ttl`, in seconds (`600`, `"600s"` or a timedelta), is the
        time after which the platform deletes them.
        """
        scope = Scope(app_name, user_id)
        memories = list(memories_of_events(events, session_id or "", custom_metadata or {}))
        await self._caller.acall(self._add(scope, memories, _lifetime(custom_metadata), skip_deleted=True))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Stores memories as they are; one with the id of an earlier one replaces it. `ttl` as for events."""
        made = list(memories_of_entries(memories, custom_metadata or {}))
        await self._caller.acall(self._add(Scope(app_name, user_id), made, _lifetime(custom_metadata)))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The memories of this app and user nearest to the query, whose first 16,384 characters count."""
        if not query.strip():
            return SearchMemoryResponse()
        return await self._caller.acall(self._search(Scope(app_name, user_id), query[:_QUESTION_MAX]))

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Deletes a memory by the id that ``search_memory`` gave; adding its session again does not bring it back."""
        if not memory_id:
            raise ValueError("delete_memory needs the memory_id of a MemoryEntry")
        await self._caller.acall(self._delete(Scope(app_name, user_id), memory_id))

    async def _add(
        self, scope: Scope, memories: list[Memory], lifetime: timedelta | None, skip_deleted: bool = False
    ) -> None:
        memory = await self._caller.memory()
        for part in portions(memories, _IDS_PER_FILTER):
            stored, deleted = await self._present(scope, [one.memory_id for one in part])
            wanted = [one for one in part if not (skip_deleted and one.memory_id in deleted)]
            expires_at = None if lifetime is None else datetime.now(UTC) + lifetime
            points = {point.id: point for one in wanted for point in points_of(scope, one, expires_at)}
            await memory.remember(
                self.collection,
                [point for point in points.values() if not is_stored(point, stored.get(point.id or ""))],
            )
            # Pieces of a longer text that the same memory had before.
            written = {(one.session_id, one.memory_id) for one in wanted}
            stale = [
                point.id
                for point in stored.values()
                if point.id not in points and (point.payload["session_id"], point.payload["memory_id"]) in written
            ]
            for ids in portions(stale, _IDS_PER_FILTER):
                await settled(memory, await memory.delete(self.collection, ids, wait=True))

    async def _present(self, scope: Scope, memory_ids: list[str]) -> tuple[dict[str, ScrolledPoint], set[str]]:
        """The points of these memories by id, and the ids of memories that were deleted."""
        stored: dict[str, ScrolledPoint] = {}
        deleted: set[str] = set()
        selected = scope.matching([STORED, DELETED], memory_ids)
        async for point in (await self._caller.memory()).scroll(self.collection, filter=selected):
            if point.payload["adapter"] == DELETED:
                deleted.add(point.payload["memory_id"])
            else:
                stored[point.id] = point
        return stored, deleted

    async def _search(self, scope: Scope, query: str) -> SearchMemoryResponse:
        found = await (await self._caller.memory()).search(
            self.collection,
            text=query,
            limit=self.limit,
            score_threshold=self.min_score,
            filter=scope.matching([STORED]),
        )
        return SearchMemoryResponse(memories=[entry_of(hit) for hit in found.results])

    async def _delete(self, scope: Scope, memory_id: str) -> None:
        memory = await self._caller.memory()
        selected = scope.matching([STORED], [memory_id])
        if not await memory.count(self.collection, filter=selected):
            return
        names = {"app_name": scope.app_name, "user_id": scope.user_id, "memory_id": memory_id}
        mark = Point(
            id=scope.point_id(DELETED, memory_id),
            vector=[1.0] + [0.0] * (VECTOR_SIZE - 1),
            payload={"adapter": DELETED, **names},
        )
        await memory.remember(self.collection, mark)
        await delete_matching(memory, self.collection, selected)


def _options(uri: str) -> dict[str, str]:
    """What a URI says. An address in it is refused: clients find the platform by their settings."""
    at = urlsplit(uri)
    if at.scheme != "flotilla" or at.netloc or at.path.strip("/") or at.fragment:
        raise ValueError(
            "the URI of this memory service is flotilla://?collection=NAME; FLOTILLA_VECTOR_URL is the address"
        )
    given = dict(parse_qsl(at.query, keep_blank_values=True))
    for name, value in given.items():
        if name not in _KNOWN_OPTIONS or not value:
            raise ValueError(f"the URI has {name}={value}: it may have {', '.join(_KNOWN_OPTIONS)}, each with a value")
    return given


def _number(kind: type[Any], name: str, given: object) -> Any:
    try:
        return kind(given)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is no number: {given!r}") from None


def _lifetime(custom_metadata: Mapping[str, object] | None) -> timedelta | None:
    given = (custom_metadata or {}).get("ttl")
    if given is None or isinstance(given, timedelta):
        return given
    if isinstance(given, str):
        given = given.removesuffix("s")
    return timedelta(seconds=_number(float, "ttl", given))
