"""JSON as it is sent: by orjson where it is installed, else by pydantic-core, which decides wherever orjson refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]


def json_of(value: Any) -> bytes:
    """JSON in UTF-8. Raises ValueError for what JSON cannot hold, such as a lone surrogate."""
    content = _by_orjson(value)
    # orjson makes null of NaN and infinity. pydantic-core names them, and the platform refuses the request.
    if content is not None and b"null" not in content:
        return content
    try:
        return to_json(value)
    except ValueError as error:  # PydanticSerializationError is one.
        raise ValueError(f"this cannot be sent as JSON: {error}") from None


def numbers_of(vector: Any) -> Any:
    """The numbers as a serialiser reads them fastest: a list, where there is a vector."""
    if vector is None or isinstance(vector, list):
        return vector
    to_list = getattr(vector, "tolist", None)
    return list(vector) if to_list is None else to_list()


def point_json(point: Mapping[str, Any]) -> bytes:
    """A point as JSON. Raises ValueError as json_of."""
    content = None if orjson is None else _by_orjson(_prepared(point), orjson.OPT_SERIALIZE_NUMPY)
    return json_of(_listed(point)) if content is None else content


def upsert_json(collection: str, points: Sequence[Mapping[str, Any]]) -> bytes:
    """The body of an upsert. Raises ValueError as json_of."""
    if orjson is not None:
        body = {"collection": collection, "points": [_prepared(point) for point in points]}
        content = _by_orjson(body, orjson.OPT_SERIALIZE_NUMPY)
        if content is not None:
            return content
    return joined_upsert(collection, [point_json(point) for point in points])


def joined_upsert(collection: str, points: Sequence[bytes]) -> bytes:
    """The body of an upsert of points that are JSON already, so that none is serialised twice."""
    head, tail = b'{"collection":%b,"points":[' % json_of(collection), b"]}"
    if len(points) < 2:
        return head + b"".join(points) + tail
    # Joined in one go: a body may have many megabytes, and each copy of it takes its time.
    return b",".join((head + points[0], *points[1:-1], points[-1] + tail))


def _by_orjson(value: Any, further: int = 0) -> bytes | None:
    """The JSON, or None without orjson and for what it refuses or would write in another form than pydantic-core."""
    if orjson is None:
        return None
    options = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
    try:
        return orjson.dumps(value, option=options | further)
    except orjson.JSONEncodeError:
        return None


def _prepared(point: Mapping[str, Any]) -> dict[str, Any]:
    """A point for orjson."""
    prepared = dict(point)
    if "vector" in point and not _is_numpy(point["vector"]):
        prepared["vector"] = numbers_of(point["vector"])
    # Apart, because of null. In a vector it needs no care: the platform refuses it there and says where.
    if "payload" in point:
        prepared["payload"] = orjson.Fragment(json_of(point["payload"]))
    return prepared


def _listed(point: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**point, "vector": numbers_of(point["vector"])} if "vector" in point else point


def _is_numpy(vector: Any) -> bool:
    """Whether orjson reads it. Older releases take any order of bytes for the machine's own."""
    kind = type(vector)
    return kind.__name__ == "ndarray" and kind.__module__ == "numpy" and bool(vector.dtype.isnative)
