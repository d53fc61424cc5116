"""The records of a topic over the main API: a stream that survives breaks, or the present records, page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ._core import Core
from ._request import Request, endpoint
from ._sse import PAUSE, resumed
from .errors import FlotillaError, is_away
from .platform_models import PagedRecord, RecordPage, TopicRecord

RECORDS = endpoint(
    "main",
    "GET",
    "/api/v1/log/topics/{topic}/records",
    RecordPage,
    query="from limit wait",
    enveloped=True,
)
_PAGE_LIMIT = 1000


def records_of(
    core: Core, topic: str, from_: str | None, follow: bool, away_max: float
) -> AsyncGenerator[TopicRecord, None]:
    """Records from a position on; with `follow` new ones as they come, else up to the last one there is."""
    if follow:
        return _followed(core, topic, from_, away_max)
    return _present(core, topic, from_ or "beginning", away_max)


async def _followed(core: Core, topic: str, from_: str | None, away_max: float) -> AsyncGenerator[TopicRecord, None]:
    position: str | None = None

    def request() -> Request[Any]:
        query = {"from": from_ if position is None else None}
        headers = {"accept": "text/event-stream", "last-event-id": position}
        return RECORDS.request(parts={"topic": topic}, query=query, headers=headers)

    async with aclosing(resumed(core, request, away_max=away_max, is_passing=_is_passing)) as events:
        async for event in events:
            position = event.id or position
            if event.kind == "message":
                yield _at(position or "", PagedRecord.model_validate_json(event.data))


async def _present(core: Core, topic: str, from_: str, away_max: float) -> AsyncGenerator[TopicRecord, None]:
    following = from_
    while True:
        page = await _page(core, topic, following, away_max)
        if not page.records:
            return
        # Within a page the position is that of its beginning, moved on record by record.
        places = _places_of(following)
        epoch, slash, _ = page.next.rpartition("/")
        for record in page.records:
            places[record.partition] = record.offset + 1
            yield _at(epoch + slash + ",".join(f"{part}:{offset}" for part, offset in places.items()), record)
        following = page.next


async def _page(core: Core, topic: str, from_: str, away_max: float) -> RecordPage:
    until = core.engine.now() + away_max
    request = RECORDS.request(parts={"topic": topic}, query={"from": from_, "limit": _PAGE_LIMIT})
    while True:
        try:
            return await core.call(request)
        except FlotillaError as error:
            if not _is_passing(error) or core.engine.now() > until:
                raise
        await core.engine.sleep(PAUSE)


def _places_of(position: str) -> dict[int, int]:
    """`beginning` and `end` name no places: a partition that was not read yet begins at its first record then, too."""
    named = position.rpartition("/")[2].split(",") if ":" in position else []
    places = [place.split(":") for place in named]
    return {int(part): int(offset) for part, offset in places}


def _at(position: str, record: PagedRecord) -> TopicRecord:
    return TopicRecord.model_construct(position=position, **record.__dict__, **(record.model_extra or {}))


def _is_passing(error: FlotillaError) -> bool:
    """Places of streams that broke are given back after a moment."""
    return is_away(error) or error.code == "too_many_streams"
