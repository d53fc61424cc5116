"""The memory of the fleet: points and texts in collections, over the vector gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Unpack
from urllib.parse import urlencode
from uuid import uuid4

from . import _memory_requests as requests
from ._blocking import Blocking, blocking, iterating
from ._core import Core
from ._json import joined_upsert, json_of, numbers_of, point_json, upsert_json
from ._operations import AsyncOperations
from ._points import parts, point_fields, without_audit_notes
from .errors import ServerFault
from .memory_collections import AsyncCollections, Collections
from .memory_models import (
    Accepted,
    AcceptedDeletion,
    AcceptedPayload,
    Embeddings,
    Filter,
    FoundPoints,
    Point,
    ScrollAnswer,
    ScrolledPoint,
    ScrollOptions,
    Search,
    SearchAnswer,
    SearchPgAnswer,
    StoredPoint,
    Vector,
)

# Gateways and proxies take addresses of this length.
_QUERY_LENGTH_MAX = 6_000


class AsyncMemory(AsyncOperations):
    """Points and texts in collections.

    Every call raises FlotillaError, and ValueError for what cannot be sent. A read with ``after``, the ``operation_id``
    of a write, reflects that write, or raises Unavailable ``not_yet_applied`` after 10 seconds.
    """

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.collections = AsyncCollections(core)

    async def remember(
        self,
        collection: str,
        what: str | Point | Mapping[str, Any] | Iterable[str | Point | Mapping[str, Any]],
        *,
        wait: bool = True,
    ) -> list[str]:
        """Stores a text, a point, or any number of either, and returns their ids.

        A point without an id gets a new one, so that the same text twice is two points. Returns once searches find
        them; with ``wait=False`` once they are accepted. Requests of at most 1,000 points and 4 MiB are sent one
        after the other, each repeated where that helps.
        """
        given = [what] if isinstance(what, (str, Point, Mapping)) else what
        points = [point_fields({"text": one} if isinstance(one, str) else one, new_id=True) for one in given]
        for part in parts(point_json(point) for point in points):
            headers = {"idempotency-key": str(uuid4())}
            content = joined_upsert(collection, part)
            query = {"wait": wait or None}
            request = requests.UPSERT.request(query=query, content=content, headers=headers, repeatable=True)
            accepted = await self._core.call(request)
            if wait and accepted.status != "applied":
                done = await self.wait_for(accepted)
                if done.status == "failed":
                    raise ServerFault("operation_failed", 502, done.error or "the operation failed")
        return [point["id"] for point in points]

    async def recall(
        self,
        collection: str,
        text: str,
        *,
        limit: int | None = None,
        score_threshold: float | None = None,
        filter: Filter | None = None,  # noqa: A002
        after: str | None = None,
    ) -> SearchAnswer:
        """The points nearest to a text, 10 unless ``limit`` says otherwise.

        Audit notes of the platform in `fleet_notes` are left out, unless the filter asks for them.
        """
        asked = without_audit_notes(collection, filter)
        return await self.search(
            collection, text=text, limit=limit, score_threshold=score_threshold, filter=asked, after=after
        )

    async def upsert(
        self,
        collection: str,
        points: Sequence[Point | Mapping[str, Any]],
        *,
        wait: bool = False,
        idempotency_key: str | None = None,
    ) -> Accepted:
        """Stores 1 to 1,000 points with ids; ``wait`` until searches find them, at most 10 seconds.

        Repeated by the client only with an ``idempotency_key``. It is not atomic: after a fault repeat the whole of it.
        """
        content = upsert_json(collection, [point_fields(point) for point in points])
        headers = {"idempotency-key": idempotency_key}
        repeatable = idempotency_key is not None
        query = {"wait": wait or None}
        request = requests.UPSERT.request(query=query, content=content, headers=headers, repeatable=repeatable)
        return await self._core.call(request)

    async def search(
        self,
        collection: str,
        *,
        text: str | None = None,
        vector: Vector | None = None,
        limit: int | None = None,
        score_threshold: float | None = None,
        filter: Filter | None = None,  # noqa: A002
        with_payload: bool | None = None,
        with_vector: bool | None = None,
        after: str | None = None,
    ) -> SearchAnswer:
        """The points nearest to a text or a vector: ``limit`` from 1 to 1,000, 10 by default."""
        body = {
            "collection": collection,
            "text": text,
            "vector": numbers_of(vector),
            "limit": limit,
            "score_threshold": score_threshold,
            "filter": filter,
            "with_payload": with_payload,
            "with_vector": with_vector,
            "after": after,
        }
        return await self._core.call(requests.SEARCH.request(body=body))

    async def search_batch(self, searches: Sequence[Search]) -> list[SearchAnswer]:
        """1 to 20 searches as one operation; the answers come in their order. One faulty search refuses all."""
        listed = [
            {**search, "vector": numbers_of(search["vector"])} if "vector" in search else search for search in searches
        ]
        return (await self._core.call(requests.BATCH.request(body={"searches": listed}))).results

    async def search_pg(
        self,
        vector: Vector,
        *,
        table: str = "embeddings",
        limit: int | None = None,
        filter_sql: str | None = None,
        with_payload: bool | None = None,
        with_vector: bool | None = None,
        after: str | None = None,
    ) -> SearchPgAnswer:
        """The nearest rows of a table of the relational mirror; ``filter_sql`` is an SQL condition over its columns.

        Raises BadRequest ``invalid_filter`` for a condition that is not allowed.
        """
        body = {
            "table": table,
            "vector": numbers_of(vector),
            "limit": limit,
            "metric": "cosine",
            "filter_sql": filter_sql,
            "with_payload": with_payload,
            "with_vector": with_vector,
            "after": after,
        }
        return await self._core.call(requests.SEARCH_PG.request(body=body))

    async def scroll_page(
        self, collection: str, *, offset: str | None = None, **options: Unpack[ScrollOptions]
    ) -> ScrollAnswer:
        """A page of at most ``limit`` points (10) and 4 MiB: only ``next_offset`` says whether there are more."""
        body = {"collection": collection, "offset": offset, **options}
        return await self._core.call(requests.SCROLL.request(body=body))

    async def scroll(self, collection: str, **options: Unpack[ScrollOptions]) -> AsyncIterator[ScrolledPoint]:
        """Every point of a collection or of a filter, each once when nothing changes meanwhile.

        A request asks for ``limit`` of them, 100 by default.
        """
        options.setdefault("limit", 100)
        offset: str | None = None
        while True:
            page = await self.scroll_page(collection, offset=offset, **options)
            for point in page.points:
                yield point
            offset = page.next_offset
            if offset is None:
                return

    async def count(self, collection: str, *, filter: Filter | None = None, after: str | None = None) -> int:  # noqa: A002
        """How many points a collection has, or match: exact."""
        body = {"collection": collection, "filter": filter, "after": after}
        query = {**body, "filter": None if filter is None else json_of(filter).decode()}
        short = _is_short(query)
        answer = await self._core.call(
            requests.COUNT.request(query=query) if short else requests.COUNT_POST.request(body=body)
        )
        return answer.count

    async def get(self, collection: str, point_id: str, *, after: str | None = None) -> StoredPoint:
        """One point with its vector. Raises NotFound `point_not_found`."""
        return await self._core.call(
            requests.GET.request(query={"collection": collection, "id": point_id, "after": after})
        )

    async def get_many(self, collection: str, ids: Sequence[str], *, after: str | None = None) -> FoundPoints:
        """The points of 1 to 1,000 ids; ``missing`` lists the ids that have none."""
        fields = {"collection": collection, "ids": list(ids), "after": after}
        short = _is_short(fields)
        return await self._core.call(
            requests.GET_MANY.request(query=fields) if short else requests.GET_POST.request(body=fields)
        )

    async def delete(
        self,
        collection: str,
        ids: Sequence[str] | None = None,
        *,
        filter: Filter | None = None,  # noqa: A002
        wait: bool = False,
        after: str | None = None,
    ) -> AcceptedDeletion:
        """Deletes 1 to 1,000 ids, or at most 10,000 points that match a filter at that moment (``more``: others do).

        Safe to repeat, so the client repeats it. ``after`` goes with a filter: what that operation wrote is among them.
        """
        if (ids is None) == (filter is None):
            raise ValueError("give delete ids or a filter, and not both")
        body = {"collection": collection, "ids": ids and list(ids), "filter": filter, "after": after}
        return await self._core.call(requests.DELETE.request(query={"wait": wait or None}, body=body))

    async def set_payload(
        self,
        collection: str,
        ids: Sequence[str],
        payload: Mapping[str, Any] | None = None,
        *,
        remove: Sequence[str] | None = None,
        wait: bool = False,
    ) -> AcceptedPayload:
        """Sets keys of payloads and removes others; vectors, other keys and expiries stay. The client repeats it."""
        body = {"collection": collection, "ids": list(ids), "set": payload, "remove": remove and list(remove)}
        return await self._core.call(requests.PAYLOAD.request(query={"wait": wait or None}, body=body))

    async def embeddings(self, texts: str | Sequence[str]) -> Embeddings:
        """Vectors of texts by the platform's embedder, in OpenAI's form."""
        given = texts if isinstance(texts, str) else list(texts)
        return await self._core.call(requests.EMBEDDINGS.request(body={"input": given}))


class Memory(Blocking[AsyncMemory]):
    """Points and texts in collections."""

    def __init__(self, calls: AsyncMemory) -> None:
        super().__init__(calls)
        self.collections = Collections(calls.collections)

    remember = blocking(AsyncMemory.remember)
    recall = blocking(AsyncMemory.recall)
    upsert = blocking(AsyncMemory.upsert)
    search = blocking(AsyncMemory.search)
    search_batch = blocking(AsyncMemory.search_batch)
    search_pg = blocking(AsyncMemory.search_pg)
    scroll_page = blocking(AsyncMemory.scroll_page)
    scroll = iterating(AsyncMemory.scroll)
    count = blocking(AsyncMemory.count)
    get = blocking(AsyncMemory.get)
    get_many = blocking(AsyncMemory.get_many)
    delete = blocking(AsyncMemory.delete)
    set_payload = blocking(AsyncMemory.set_payload)
    operation = blocking(AsyncMemory.operation)
    wait_for = blocking(AsyncMemory.wait_for)
    embeddings = blocking(AsyncMemory.embeddings)


def _is_short(query: Mapping[str, Any]) -> bool:
    given = {name: value for name, value in query.items() if value is not None}
    return len(urlencode(given, doseq=True)) <= _QUERY_LENGTH_MAX
