"""Points, collections and searches, as they travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NotRequired, Protocol, TypedDict

from pydantic import Field

from ._model import JsonObject, Model

Filter = Mapping[str, Any]
"""`must`, `should` and `must_not`, each a list of conditions: `{"key": "status", "match": {"value": "active"}}`."""


class HasToList(Protocol):
    """An array of numpy, torch or the standard library."""

    def tolist(self) -> Any:
        """Its numbers."""


Vector = Sequence[float] | HasToList
"""1,536 numbers: a list, or an array that has `tolist`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point to store: a vector, or a text of which the platform makes one and that becomes ``payload["text"]``.

    Attributes:
        id: 1 to 512 characters; ``remember`` makes one where there is none.
        vector: 1,536 numbers.
        text: At most 16,384 characters.
        payload: At most 64 KiB as JSON.
        expires_at: From this time on no read shows the point, and the platform deletes it.

    """

    id: str | None = None
    vector: Vector | None = field(default=None, repr=False)
    text: str | None = None
    payload: Mapping[str, Any] | None = None
    expires_at: datetime | str | None = None


class Search(TypedDict):
    """One search of ``search_batch``: the arguments of ``search`` by name."""

    collection: str
    vector: NotRequired[Vector]
    text: NotRequired[str]
    limit: NotRequired[int]
    score_threshold: NotRequired[float]
    filter: NotRequired[Filter]
    with_payload: NotRequired[bool]
    with_vector: NotRequired[bool]
    after: NotRequired[str]


class OrderBy(TypedDict):
    """Newest or oldest first, by the payload's `updated_at`; points without such a time come last."""

    key: Literal["updated_at"]
    direction: NotRequired[Literal["asc", "desc"]]


class ScrollOptions(TypedDict, total=False):
    """What a scroll may come with.

    Attributes:
        limit: Points of a page, 1 to 1,000.
        filter: Which points.
        order_by: By default the ids.
        with_payload: By default True.
        with_vector: By default False.
        after: The ``operation_id`` that the answer reflects.

    """

    limit: int | None
    filter: Filter | None
    order_by: OrderBy | None
    with_payload: bool | None
    with_vector: bool | None
    after: str | None


class StoredPoint(Model):
    """A point as the platform holds it."""

    id: str
    vector: list[float] = Field(repr=False)
    payload: JsonObject
    expires_at: str | None = None


class ScrolledPoint(Model):
    """A point of a scroll; `vector` only where it was asked for."""

    id: str
    payload: JsonObject = Field(default_factory=dict)
    vector: list[float] | None = Field(default=None, repr=False)
    expires_at: str | None = None


class Hit(ScrolledPoint):
    """A point that a search found; a higher score is nearer, 1 the same direction."""

    score: float


class TableHit(Hit):
    """A row of the relational mirror; `collection` is None where its table has no such column."""

    collection: str | None = None


class SearchAnswer(Model):
    """Hits by falling score. `took_ms` is in milliseconds; `warnings` says where another embedder made some hits."""

    results: list[Hit]
    took_ms: int
    records_scanned: int
    warnings: list[str] = Field(default_factory=list)


class SearchBatchAnswer(Model):
    """The answers of a batch, in the order of its searches."""

    results: list[SearchAnswer]


class SearchPgAnswer(Model):
    """Rows by falling score."""

    results: list[TableHit]
    took_ms: int
    records_scanned: int


class ScrollAnswer(Model):
    """A page of points; `next_offset` is None at the end."""

    points: list[ScrolledPoint]
    next_offset: str | None


class CountAnswer(Model):
    """An exact count."""

    collection: str
    count: int


class FoundPoints(Model):
    """The points of some ids, and the ids that have none."""

    points: list[StoredPoint]
    missing: list[str]


class Accepted(Model):
    """A write that the log holds: `applied` once searches find it. Give `operation_id` to a read as `after`."""

    operation_id: str
    status: Literal["accepted", "applied"] | str
    collection: str
    points: int


class AcceptedDeletion(Accepted):
    """`deleted` counts the points that a filter matched; `more` says that others match."""

    deleted: int | None = None
    more: bool | None = None


class AcceptedPayload(Accepted):
    """`unknown` counts the ids without a point."""

    unknown: int


class Operation(Model):
    """How far a write is."""

    operation_id: str
    status: Literal["accepted", "applied", "failed"] | str
    error: str | None = None


class Collection(Model):
    """A collection; `created_by` is an agent, a person's uid, or `platform`."""

    name: str
    description: str | None
    points: int
    created_by: str
    created_at: str


class CollectionList(Model):
    """All collections."""

    collections: list[Collection]


class DeletedCollection(Model):
    """A collection that is gone."""

    name: str
    deleted: bool


class PayloadIndex(Model):
    """An index over a payload key."""

    collection: str
    key: str
    type: Literal["keyword", "number", "time", "text"] | str


class Embedding(Model):
    """A vector of one text; base64 where that was asked for."""

    object: str
    index: int
    embedding: list[float] | str = Field(repr=False)


class EmbeddingsUsage(Model):
    """How many tokens the texts have."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Model):
    """Vectors in OpenAI's form."""

    object: str
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage
