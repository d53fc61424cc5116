"""Notes and goals of the hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from ._blocking import Blocking, blocking, iterating
from ._core import Core
from ._request import Endpoint, endpoint
from ._sse import resumed
from .hub_models import Change, Goal, GoalStatus, Note, NoteStatus, Page, Priority, Record

R = TypeVar("R", bound=Record)

_CREATE_NOTE = endpoint("hub", "POST", "/fleet_notes", Note, body="subject body priority thread_id parent_id")
_LIST_NOTES = endpoint("hub", "GET", "/fleet_notes", list[Note], query="limit cursor thread_id status priority author")
_GET_NOTE = endpoint("hub", "GET", "/fleet_notes/{id}", Note)
# A repeated change would undo what others changed meanwhile.
_CHANGE_NOTE = endpoint(
    "hub", "PATCH", "/fleet_notes/{id}", Note, body="subject body priority status", repeatable=False
)
_NOTE_EVENTS = endpoint("hub", "GET", "/fleet_notes/events", Note)
_THREAD = endpoint("hub", "GET", "/fleet_notes/{id}/thread", list[Note], query="limit cursor")
_CREATE_GOAL = endpoint("hub", "POST", "/goals", Goal, body="title description priority")
_LIST_GOALS = endpoint("hub", "GET", "/goals", list[Goal], query="limit cursor status priority author")
_GET_GOAL = endpoint("hub", "GET", "/goals/{id}", Goal)
_CHANGE_GOAL = endpoint("hub", "PATCH", "/goals/{id}", Goal, body="title description priority status", repeatable=False)
_GOAL_EVENTS = endpoint("hub", "GET", "/goals/events", Goal)


class _Records(Generic[R]):
    """What notes and goals have in common."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def _page(self, described: Endpoint[list[R]], query: Mapping[str, Any], **parts: int) -> Page[R]:
        answer = await self._core.respond(described.request(parts=parts, query=query))
        return Page(answer.data, next_of(answer.headers.get("link")))

    async def _all(self, described: Endpoint[list[R]], query: Mapping[str, Any]) -> AsyncIterator[R]:
        cursor: str | None = None
        while True:
            page = await self._page(described, {**query, "cursor": cursor})
            for item in page.items:
                yield item
            cursor = page.next
            if cursor is None:
                return

    async def _create(self, described: Endpoint[R], body: Mapping[str, Any], key: str | None) -> R:
        # Its own key, so that a call without an answer is sent again and creates nothing twice.
        headers = {"idempotency-key": key or str(uuid4())}
        return await self._versioned(described, body=body, headers=headers)

    async def _change(self, described: Endpoint[R], record_id: int, body: Mapping[str, Any], etag: str | None) -> R:
        return await self._versioned(described, parts={"id": record_id}, body=body, headers={"if-match": etag})

    async def _versioned(self, described: Endpoint[R], **given: Any) -> R:
        answer = await self._core.respond(described.request(**given))
        answer.data.etag = answer.headers.get("etag", "")
        return answer.data

    async def _events(self, described: Endpoint[R], last_id: str | None) -> AsyncIterator[Change[R]]:
        def request() -> Any:
            return described.request(headers={"accept": "text/event-stream", "last-event-id": last_id})

        async with aclosing(resumed(self._core, request)) as events:
            async for event in events:
                last_id = event.id or last_id
                if event.kind == "message":
                    yield Change("change", last_id, described.adapter.validate_json(event.data))
                elif event.kind not in ("heartbeat", "end"):
                    yield Change(event.kind, last_id)


class AsyncNotes(_Records[Note]):
    """The notes of the hub, in threads."""

    async def create(
        self,
        subject: str,
        body: str,
        *,
        priority: Priority | None = None,
        thread_id: str | None = None,
        parent_id: int | None = None,
        idempotency_key: str | None = None,
    ) -> Note:
        """Writes a note: a thread of its own, or a reply."""
        fields = {
            "subject": subject,
            "body": body,
            "priority": priority,
            "thread_id": thread_id,
            "parent_id": parent_id,
        }
        return await self._create(_CREATE_NOTE, fields, idempotency_key)

    async def get(self, note_id: int) -> Note:
        """One note, with its ``etag``. Raises NotFound."""
        return await self._versioned(_GET_NOTE, parts={"id": note_id})

    async def update(
        self,
        note_id: int,
        *,
        subject: str | None = None,
        body: str | None = None,
        priority: Priority | None = None,
        status: NoteStatus | None = None,
        if_match: str | None = None,
    ) -> Note:
        """Changes a note of one's own. Raises Forbidden, Conflict `invalid_transition`, or PreconditionFailed.

        The last only with ``if_match``, the ``etag`` of the note as it was read.
        """
        changes = {"subject": subject, "body": body, "priority": priority, "status": status}
        return await self._change(_CHANGE_NOTE, note_id, changes, if_match)

    async def list(
        self,
        *,
        status: NoteStatus | None = None,
        priority: Priority | None = None,
        author: str | None = None,
        thread_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Note]:
        """A page of at most ``limit`` notes (100) and 4 MiB, the newest first."""
        query = {"status": status, "priority": priority, "author": author, "thread_id": thread_id}
        return await self._page(_LIST_NOTES, {**query, "limit": limit, "cursor": cursor})

    def all(
        self,
        *,
        status: NoteStatus | None = None,
        priority: Priority | None = None,
        author: str | None = None,
        thread_id: str | None = None,
    ) -> AsyncIterator[Note]:
        """Every note, page by page, the newest first."""
        query = {"status": status, "priority": priority, "author": author, "thread_id": thread_id}
        return self._all(_LIST_NOTES, query)

    async def thread(self, note_id: int, *, limit: int | None = None, cursor: str | None = None) -> Page[Note]:
        """A page of the note's thread, the oldest first."""
        return await self._page(_THREAD, {"limit": limit, "cursor": cursor}, id=note_id)

    def events(self, *, last_id: str | None = None) -> AsyncIterator[Change[Note]]:
        """Changes as they come; it connects again by itself and goes on behind the last event.

        Raises FlotillaError when the right ended or the hub stays away; ``last_id`` is the ``id`` of the last event
        seen.
        """
        return self._events(_NOTE_EVENTS, last_id)


class Notes(Blocking[AsyncNotes]):
    """The notes of the hub, in threads."""

    create = blocking(AsyncNotes.create)
    get = blocking(AsyncNotes.get)
    update = blocking(AsyncNotes.update)
    list = blocking(AsyncNotes.list)
    all = iterating(AsyncNotes.all)
    thread = blocking(AsyncNotes.thread)
    events = iterating(AsyncNotes.events)


class AsyncGoals(_Records[Goal]):
    """The goals of the hub."""

    async def create(
        self,
        title: str,
        *,
        description: str | None = None,
        priority: Priority | None = None,
        idempotency_key: str | None = None,
    ) -> Goal:
        """Sets a goal."""
        fields = {"title": title, "description": description, "priority": priority}
        return await self._create(_CREATE_GOAL, fields, idempotency_key)

    async def get(self, goal_id: int) -> Goal:
        """One goal, with its ``etag``. Raises NotFound."""
        return await self._versioned(_GET_GOAL, parts={"id": goal_id})

    async def update(
        self,
        goal_id: int,
        *,
        title: str | None = None,
        description: str | None = None,
        priority: Priority | None = None,
        status: GoalStatus | None = None,
        if_match: str | None = None,
    ) -> Goal:
        """Changes a goal of one's own. Raises Forbidden, Conflict, or PreconditionFailed with ``if_match``."""
        changes = {"title": title, "description": description, "priority": priority, "status": status}
        return await self._change(_CHANGE_GOAL, goal_id, changes, if_match)

    async def list(
        self,
        *,
        status: GoalStatus | None = None,
        priority: Priority | None = None,
        author: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Goal]:
        """A page of at most ``limit`` goals (100) and 4 MiB, the newest first."""
        query = {"status": status, "priority": priority, "author": author, "limit": limit, "cursor": cursor}
        return await self._page(_LIST_GOALS, query)

    def all(
        self,
        *,
        status: GoalStatus | None = None,
        priority: Priority | None = None,
        author: str | None = None,
    ) -> AsyncIterator[Goal]:
        """Every goal, page by page, the newest first."""
        return self._all(_LIST_GOALS, {"status": status, "priority": priority, "author": author})

    def events(self, *, last_id: str | None = None) -> AsyncIterator[Change[Goal]]:
        """Changes as they come, as those of notes."""
        return self._events(_GOAL_EVENTS, last_id)


class Goals(Blocking[AsyncGoals]):
    """The goals of the hub."""

    create = blocking(AsyncGoals.create)
    get = blocking(AsyncGoals.get)
    update = blocking(AsyncGoals.update)
    list = blocking(AsyncGoals.list)
    all = iterating(AsyncGoals.all)
    events = iterating(AsyncGoals.events)


def next_of(link: str | None) -> str | None:
    """The cursor of `<…?cursor=…>; rel="next"`."""
    for one in (link or "").split(","):
        address, _, rest = one.partition(">")
        if 'rel="next"' in rest:
            query = parse_qs(urlsplit(address.strip().removeprefix("<")).query)
            return query.get("cursor", [None])[0]
    return None
