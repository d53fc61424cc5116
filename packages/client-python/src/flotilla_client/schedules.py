"""Messages that go to agents by the clock."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import uuid4

from ._blocking import Blocking, blocking
from ._core import Core
from ._request import endpoint
from .hub import next_of
from .hub_models import Page
from .run_models import Schedule, ScheduleDeleted, ScheduledRun

_FIELDS = "name agent dispatch message parts cron timezone at session missed paused endsAt"
_NAMES = {"ends_at": "endsAt"}

_CREATE = endpoint("run", "POST", "/schedules", Schedule, body=_FIELDS)
_LIST = endpoint("run", "GET", "/schedules", list[Schedule], query="limit cursor")
_SHOW = endpoint("run", "GET", "/schedules/{id}", Schedule)
_UPDATE = endpoint("run", "PATCH", "/schedules/{id}", Schedule, body=_FIELDS)
# One that is gone is not found: only the caller knows whether an answer was lost.
_DELETE = endpoint("run", "DELETE", "/schedules/{id}", ScheduleDeleted, repeatable=False)
_RUNS = endpoint("run", "GET", "/schedules/{id}/runs", list[ScheduledRun], query="limit cursor")


class ScheduleFields(TypedDict, total=False):
    """A schedule, or changes of one: fields that are left out stay.

    Attributes:
        agent: A codename or slug.
        dispatch: In place of ``agent``: all agents.
        message: A text.
        parts: In place of ``message``.
        cron: Minute, hour, day of the month, month, day of the week.
        timezone: For ``cron``, by its name in the IANA database; UTC.
        at: Once, in place of ``cron``: an aware time to come, or its text.
        session: `new` (the default) for a new one each time, or the id of the session that it goes on in.
        missed: For times at which the platform was not there: `skip` (the default), or `once`.
        paused: It does not fire.
        ends_at: It fires no more after that.
        name: For people.

    """

    agent: str
    dispatch: bool
    message: str
    parts: builtins.list[Mapping[str, Any]]
    cron: str | None
    timezone: str
    at: str | datetime | None
    session: str
    missed: str
    paused: bool
    ends_at: str | datetime | None
    name: str | None


class AsyncSchedules:
    """Messages that go to agents by the clock."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(self, *, idempotency_key: str | None = None, **fields: Unpack[ScheduleFields]) -> Schedule:
        """Makes a schedule. Raises `validation_failed`, NotFound `agent_not_found`, Conflict `too_many_schedules`."""
        headers = {"idempotency-key": idempotency_key or str(uuid4())}
        return await self._core.call(_CREATE.request(body=_body(fields), headers=headers))

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Schedule]:
        """A page of at most ``limit`` schedules (100), the newest first."""
        answer = await self._core.respond(_LIST.request(query={"limit": limit, "cursor": cursor}))
        return Page(answer.data, next_of(answer.headers.get("link")))

    async def get(self, schedule_id: str) -> Schedule:
        """One schedule. Raises NotFound `schedule_not_found`, as those below."""
        return await self._core.call(_SHOW.request(parts={"id": schedule_id}))

    async def update(self, schedule_id: str, **fields: Unpack[ScheduleFields]) -> Schedule:
        """Changes a schedule; ``paused`` pauses and resumes it."""
        return await self._core.call(_UPDATE.request(parts={"id": schedule_id}, body=_body(fields)))

    async def delete(self, schedule_id: str) -> ScheduleDeleted:
        """Deletes a schedule; its runs stay."""
        return await self._core.call(_DELETE.request(parts={"id": schedule_id}))

    async def runs(
        self, schedule_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[ScheduledRun]:
        """A page of at most ``limit`` planned times that have come (100), the newest first."""
        query = {"limit": limit, "cursor": cursor}
        answer = await self._core.respond(_RUNS.request(parts={"id": schedule_id}, query=query))
        return Page(answer.data, next_of(answer.headers.get("link")))


def _body(fields: ScheduleFields) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in ScheduleFields.__annotations__:
            raise TypeError(f"a schedule has no field {name!r}")
        if isinstance(value, datetime):
            if value.tzinfo is None:
                raise ValueError(f"{name} needs a time zone")
            value = value.isoformat()
        body[_NAMES.get(name, name)] = value
    return body


class Schedules(Blocking[AsyncSchedules]):
    """Messages that go to agents by the clock."""

    create = blocking(AsyncSchedules.create)
    list = blocking(AsyncSchedules.list)
    get = blocking(AsyncSchedules.get)
    update = blocking(AsyncSchedules.update)
    delete = blocking(AsyncSchedules.delete)
    runs = blocking(AsyncSchedules.runs)
