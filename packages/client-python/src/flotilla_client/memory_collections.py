"""Collections of the vector gateway."""

from __future__ import annotations

import builtins
from typing import Literal
from uuid import uuid4

from ._blocking import Blocking, blocking
from ._core import Core
from ._request import endpoint
from .errors import NotFound
from .memory_models import Collection, CollectionList, DeletedCollection, PayloadIndex

_LIST = endpoint("vector", "GET", "/v1/collections", CollectionList)
_CREATE = endpoint("vector", "POST", "/v1/collections", Collection, body="name description")
_SHOW = endpoint("vector", "GET", "/v1/collections/{name}", Collection)
_DROP = endpoint("vector", "DELETE", "/v1/collections/{name}", DeletedCollection)
_INDEX = endpoint("vector", "POST", "/v1/collections/{name}/indexes", PayloadIndex, body="key type")


class AsyncCollections:
    """Collections. Members make them, admins delete them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def list(self) -> builtins.list[Collection]:
        """All collections, with how many points each has."""
        return (await self._core.call(_LIST.request())).collections

    async def create(self, name: str, *, description: str | None = None) -> Collection:
        """Makes a collection: `[a-z0-9][a-z0-9_-]{0,63}`. Raises Conflict `collection_exists`."""
        # With a key of its own a repeat finds its first try, and no other collection of that name.
        headers = {"idempotency-key": str(uuid4())}
        body = {"name": name, "description": description}
        return await self._core.call(_CREATE.request(body=body, headers=headers))

    async def get(self, name: str) -> Collection:
        """One collection. Raises NotFound `collection_not_found`."""
        return await self._core.call(_SHOW.request(parts={"name": name}))

    async def delete(self, name: str) -> None:
        """Deletes a collection with all its points. Raises NotFound `collection_not_found`."""
        try:
            await self._core.call(_DROP.request(parts={"name": name}))
        except NotFound as error:
            # Gone at a later attempt: the answer to an earlier one was lost.
            if error.code != "collection_not_found" or error.attempts < 2:
                raise

    async def index(self, name: str, key: str, kind: Literal["keyword", "number", "time", "text"]) -> None:
        """Makes filters of a large collection on the payload key faster; the same again is no fault."""
        await self._core.call(_INDEX.request(parts={"name": name}, body={"key": key, "type": kind}))


class Collections(Blocking[AsyncCollections]):
    """Collections. Members make them, admins delete them."""

    list = blocking(AsyncCollections.list)
    create = blocking(AsyncCollections.create)
    get = blocking(AsyncCollections.get)
    delete = blocking(AsyncCollections.delete)
    index = blocking(AsyncCollections.index)
