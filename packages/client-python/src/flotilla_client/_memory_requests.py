"""The operations of the vector gateway on points."""

from __future__ import annotations

from ._request import endpoint
from .memory_models import (
    Accepted,
    AcceptedDeletion,
    AcceptedPayload,
    CountAnswer,
    Embeddings,
    FoundPoints,
    Operation,
    ScrollAnswer,
    SearchAnswer,
    SearchBatchAnswer,
    SearchPgAnswer,
    StoredPoint,
)

UPSERT = endpoint(
    "vector", "POST", "/v1/vectors/upsert", Accepted, query="wait", body="collection points", repeatable=False
)
SEARCH_FIELDS = "collection vector text limit score_threshold filter with_payload with_vector after"
SEARCH = endpoint("vector", "POST", "/v1/vectors/search", SearchAnswer, body=SEARCH_FIELDS)
BATCH = endpoint("vector", "POST", "/v1/vectors/search/batch", SearchBatchAnswer, body="searches")
SEARCH_PG = endpoint(
    "vector",
    "POST",
    "/v1/vectors/search-pg",
    SearchPgAnswer,
    body="table vector limit metric filter_sql with_payload with_vector after",
)
SCROLL = endpoint(
    "vector",
    "POST",
    "/v1/vectors/scroll",
    ScrollAnswer,
    body="collection limit offset filter order_by with_payload with_vector after",
)
COUNT = endpoint("vector", "GET", "/v1/vectors/count", CountAnswer, query="collection filter after")
COUNT_POST = endpoint("vector", "POST", "/v1/vectors/count", CountAnswer, body="collection filter after")
GET = endpoint("vector", "GET", "/v1/vectors/get", StoredPoint, query="collection id after")
GET_MANY = endpoint("vector", "GET", "/v1/vectors/get", FoundPoints, query="collection ids after")
GET_POST = endpoint("vector", "POST", "/v1/vectors/get", FoundPoints, body="collection ids after")
DELETE = endpoint(
    "vector", "DELETE", "/v1/vectors/delete", AcceptedDeletion, query="wait", body="collection ids filter after"
)
PAYLOAD = endpoint(
    "vector", "POST", "/v1/vectors/payload", AcceptedPayload, query="wait", body="collection ids set remove"
)
OPERATION = endpoint("vector", "GET", "/v1/operations/{operation_id}", Operation)
EMBEDDINGS = endpoint("vector", "POST", "/v1/embeddings", Embeddings, body="input")
