"""CrewAI: the storage of its memory in a collection of the platform, and the platform's embedder."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

try:
    from crewai.memory.types import MemoryRecord, ScopeInfo

    from ._crewai_records import ancestors, matching, path_of, point_of, record_of, time_of
except ImportError as error:
    raise ImportError(
        "flotilla_client.crewai needs CrewAI: pip install 'flotilla-client[crewai]'", name=error.name
    ) from error

from ._adapter_points import both, delete_matching, distinct_values, embedded
from ._adapters import Caller, Client, padded, portions, settled
from .client import Flotilla
from .errors import NotFound
from .memory_models import Filter, OrderBy, StoredPoint

T = TypeVar("T")

# A filter takes at most 1,000 values of `any`.
_IDS_PER_FILTER = 500
_PAGE_MAX = 1_000
_TEXT_MAX = 16_384


class FlotillaStorage:
    """Records of CrewAI's memory in a collection of the platform, which is made where it is missing.

    Implements ``crewai.memory.storage.backend.StorageBackend``. A scope holds the records of every scope below it, at
    the boundaries of its path: `/a` does not hold `/ab`. The collection may hold other points: the storage neither
    finds nor deletes those. Calls raise FlotillaError, and ValueError for what cannot be sent. With an AsyncFlotilla,
    blocking methods raise TypeError; CrewAI itself calls those.
    """

    def __init__(self, client: Client | None = None, collection: str = "crewai-memory") -> None:
        """Without a client, a Flotilla with the settings of the environment."""
        self.collection = collection
        self._owns_client = client is None
        self._caller = Caller(client, collection)

    @property
    def client(self) -> Client:
        """The client of the platform."""
        return self._caller.client

    def close(self) -> None:
        """Closes the client that the storage made for itself; one that it was given stays open."""
        if self._owns_client and isinstance(self.client, Flotilla):
            self.client.close()

    def save(self, records: list[MemoryRecord]) -> None:
        """Stores records, with embeddings of at most 1,536 numbers; no search finds one without an embedding."""
        self._call(self._save(records))

    async def asave(self, records: list[MemoryRecord]) -> None:
        """As ``save``."""
        await self._caller.acall(self._save(records))

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The records nearest to the embedding with their cosines: of any of the categories, with all the metadata."""
        selected = matching(scope_prefix, categories, metadata_filter)
        return self._call(self._search(query_embedding, selected, limit, min_score))

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """As ``search``."""
        selected = matching(scope_prefix, categories, metadata_filter)
        return await self._caller.acall(self._search(query_embedding, selected, limit, min_score))

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Deletes the records that meet all that is given, or all records, and returns how many.

        ``older_than`` compares ``created_at``; times without a zone are UTC.
        """
        selected = matching(scope_prefix, categories, metadata_filter, older_than)
        return self._call(self._delete(selected, record_ids))

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """As ``delete``."""
        selected = matching(scope_prefix, categories, metadata_filter, older_than)
        return await self._caller.acall(self._delete(selected, record_ids))

    def update(self, record: MemoryRecord) -> None:
        """Replaces the record of the same id; one without an embedding keeps the stored embedding."""
        self._call(self._update(record))

    def touch_records(self, record_ids: list[str]) -> None:
        """Sets ``last_accessed`` of records to now; unknown ids are no fault."""
        self._call(self._touch(record_ids))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """One record with its embedding, or None."""
        return self._call(self._get(record_id))

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Records by ``created_at``, newest first, without embeddings. ``offset`` records are passed over."""
        if limit < 0 or offset < 0:
            raise ValueError(f"limit and offset are not negative: {limit}, {offset}")
        return self._call(self._list(matching(scope_prefix), limit, offset))

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """How many records a scope and those below it have, their categories, oldest and newest, and child scopes."""
        return self._call(self._scope_info(path_of(scope)))

    def list_scopes(self, parent: str = "/") -> list[str]:
        """The scopes directly below a scope."""
        return self._call(self._child_scopes(path_of(parent)))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """How many records have each category; one request counts each."""
        return self._call(self._category_counts(matching(scope_prefix)))

    def count(self, scope_prefix: str | None = None) -> int:
        """How many records there are."""
        return self._call(self._count(matching(scope_prefix)))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Deletes all records, or those of a scope."""
        self._call(self._delete(matching(scope_prefix), None))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if isinstance(self.client, Flotilla):
            return self._caller.call(work)
        work.close()
        # CrewAI takes a RuntimeError of a save for the end of the interpreter, and drops the record without a word.
        raise TypeError("CrewAI calls blocking methods, and this storage has an AsyncFlotilla: give it a Flotilla")

    async def _save(self, records: Sequence[MemoryRecord]) -> None:
        points = [point_of(record) for record in records]
        await (await self._caller.memory()).remember(self.collection, points)

    async def _search(
        self, embedding: Sequence[float], selected: Filter, limit: int, min_score: float
    ) -> list[tuple[MemoryRecord, float]]:
        found = await (await self._caller.memory()).search(
            self.collection,
            vector=padded(embedding),
            limit=limit,
            score_threshold=min_score,
            filter=both(selected, {"key": "embedded", "match": {"value": True}}),
            with_vector=True,
        )
        return [(record_of(hit), hit.score) for hit in found.results]

    async def _delete(self, selected: Filter, record_ids: list[str] | None = None) -> int:
        memory = await self._caller.memory()
        if record_ids is None:
            return await delete_matching(memory, self.collection, selected)
        deleted = 0
        for part in portions(record_ids, _IDS_PER_FILTER):
            named = {"key": "record_id", "match": {"any": list(part)}}
            deleted += await delete_matching(memory, self.collection, both(selected, named))
        return deleted

    async def _update(self, record: MemoryRecord) -> None:
        if not record.embedding and (stored := await self._get(record.id)) is not None:
            record = record.model_copy(update={"embedding": stored.embedding})
        await self._save([record])

    async def _touch(self, record_ids: list[str]) -> None:
        now = {"last_accessed": time_of(datetime.now(UTC))}
        memory = await self._caller.memory()
        for part in portions(record_ids, _IDS_PER_FILTER):
            await settled(memory, await memory.set_payload(self.collection, part, now, wait=True))

    async def _get(self, record_id: str) -> MemoryRecord | None:
        try:
            point: StoredPoint = await (await self._caller.memory()).get(self.collection, record_id)
        except NotFound as error:
            if error.code != "point_not_found":
                raise
            return None
        return record_of(point) if point.payload.get("adapter") == "crewai" else None

    async def _list(
        self, selected: Filter, limit: int, records_before: int = 0, oldest: bool = False
    ) -> list[MemoryRecord]:
        listed: list[MemoryRecord] = []
        order: OrderBy = {"key": "updated_at", "direction": "asc" if oldest else "desc"}
        offset: str | None = None
        while len(listed) < limit:
            page = await (await self._caller.memory()).scroll_page(
                self.collection,
                offset=offset,
                filter=selected,
                limit=min(limit - len(listed) + records_before, _PAGE_MAX),
                order_by=order,
            )
            listed += [record_of(point) for point in page.points[records_before:]]
            records_before = max(0, records_before - len(page.points))
            offset = page.next_offset
            if offset is None:
                break
        return listed

    async def _count(self, selected: Filter) -> int:
        return await (await self._caller.memory()).count(self.collection, filter=selected)

    async def _scope_info(self, path: str) -> ScopeInfo:
        selected = matching(path)
        oldest = await self._list(selected, 1, oldest=True)
        newest = await self._list(selected, 1)
        return ScopeInfo(
            path=path,
            record_count=await self._count(selected),
            categories=await self._categories(selected),
            oldest_record=oldest[0].created_at if oldest else None,
            newest_record=newest[0].created_at if newest else None,
            child_scopes=await self._child_scopes(path),
        )

    async def _category_counts(self, selected: Filter) -> dict[str, int]:
        return {
            category: await self._count(both(selected, {"key": "categories", "match": {"value": category}}))
            for category in await self._categories(selected)
        }

    async def _categories(self, selected: Filter) -> list[str]:
        some = both(selected, {"must_not": [{"is_empty": {"key": "categories"}}]})

        def unseen(seen: list[str]) -> Filter:
            return both(selected, {"key": "categories", "match": {"except": seen}})

        return await distinct_values(
            await self._caller.memory(), self.collection, some, unseen, lambda payload: payload["categories"]
        )

    async def _child_scopes(self, parent: str) -> list[str]:
        below = both(matching(parent), {"must_not": [{"key": "scope", "match": {"value": parent}}]})
        depth = len(ancestors(parent))

        def unseen(seen: list[str]) -> Filter:
            return both(below, {"must_not": [{"key": "scopes", "match": {"any": seen}}]})

        return await distinct_values(
            await self._caller.memory(),
            self.collection,
            below,
            unseen,
            lambda payload: payload["scopes"][depth : depth + 1],
        )


class FlotillaEmbedder:
    """The platform's embedder as CrewAI calls one: texts in, vectors of 1,536 numbers out."""

    def __init__(self, client: Flotilla | None = None) -> None:
        """Without a client, one with the settings of the environment."""
        self._caller = Caller(client, "", create_collection=False)

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, of which the first 16,384 characters count."""
        return self._caller.call(self._embed(texts))

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return await embedded(await self._caller.memory(), (text[:_TEXT_MAX] for text in texts))
