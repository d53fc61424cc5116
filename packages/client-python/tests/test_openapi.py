"""Holds every request and every model to the OpenAPI documents of a running platform, in both directions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from schemas import Schema, differences, fields, resolved

import flotilla_client.client  # noqa: F401 - declares every operation
from flotilla_client._request import ENDPOINTS, Endpoint
from flotilla_client.hub_models import Change
from flotilla_client.memory_models import OrderBy, Point, ScrollOptions, Search
from flotilla_client.platform_models import PagedRecord
from flotilla_client.run_models import RunEvent, RunOptions

pytestmark = pytest.mark.platform

# Of the main API agents call these; any other route goes by `main.request`.
WHOLE = ("vector", "hub", "run", "webhook")
NOT_CALLED = {
    ("webhook", "GET", "/health"): "for those who operate the relay",
    ("run", "GET", "/openai/models"): "for clients of OpenAI",
    ("run", "GET", "/openai/models/{model}"): "for clients of OpenAI",
    ("run", "POST", "/openai/chat/completions"): "for clients of OpenAI",
}
NOT_SENT = {
    ("vector", "/v1/embeddings"): {"model", "encoding_format", "dimensions", "user"},  # For clients of OpenAI.
    ("hub", "/fleet_notes"): {"status"},  # At creation there is one value.
    ("hub", "/goals"): {"status"},
}
# Google's identity provider asks for it, and the platform's own takes any.
NOT_DESCRIBED = {"key"}
# The identity provider answers more than an agent needs, and seconds as a text.
NOT_COMPARED = (".kind", ".isNewUser", ".refreshToken", ".expiresIn")


Key = tuple[str, str, str]


def declared() -> dict[Key, list[Endpoint[Any]]]:
    by_operation: dict[Key, list[Endpoint[Any]]] = defaultdict(list)
    for one in ENDPOINTS:
        by_operation[one.service, one.method, one.path].append(one)
    return by_operation


def operations(documents: dict[str, Any]) -> dict[Key, Schema]:
    return {
        (service, method.upper(), path): operation
        for service, document in documents.items()
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in ("get", "post", "put", "patch", "delete")
    }


def test_every_call_is_an_operation_of_the_platform_and_the_other_way_round(documents: dict[str, Any]) -> None:
    offered = operations(documents)
    called = set(declared())
    assert called - offered.keys() == set()
    missing = {key for key in offered if key[0] in WHOLE} - called
    assert missing == set(NOT_CALLED)


def test_queries_and_bodies_have_the_fields_of_the_platform(documents: dict[str, Any]) -> None:
    assert list(request_differences(documents)) == []


def request_differences(documents: dict[str, Any]) -> Iterator[str]:
    offered = operations(documents)
    for key, endpoints in declared().items():
        service, _, path = key
        operation, document = offered[key], documents[service]
        queries = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
        content = operation.get("requestBody", {}).get("content", {})
        schema = resolved(document, content.get("application/json", {}).get("schema", {}))
        sent = {name for one in endpoints for name in one.body}
        expected = set(schema.get("properties", ())) - NOT_SENT.get((service, path), set())
        asked = {name for one in endpoints for name in one.query}
        yield from (f"{key}: query {name}" for name in sorted((queries ^ asked) - NOT_DESCRIBED))
        yield from (f"{key}: body {name}" for name in sorted(expected ^ sent))
        yield from (f"{key}: needs {name}" for name in sorted(set(schema.get("required", ())) - sent))


def test_answers_have_the_fields_and_types_of_the_platform(documents: dict[str, Any]) -> None:
    offered = operations(documents)
    checked, found = 0, []
    for key, endpoints in declared().items():
        document = documents[key[0]]
        for one in endpoints:
            schemas = list(answers(document, offered[key], one))
            checked += len(schemas)
            whole = [list(differences(document, schema, one.answer, one.path)) for schema in schemas]
            # An operation with several answers has an endpoint for each.
            if whole and all(whole):
                found += sorted(whole, key=len)[0]
    assert [line for line in found if not line.partition(": ")[0].endswith(NOT_COMPARED)] == []
    assert checked > 40


def answers(document: Schema, operation: Schema, one: Endpoint[Any]) -> Iterator[Schema]:
    for status, response in operation["responses"].items():
        schema = response.get("content", {}).get("application/json", {}).get("schema")
        if status[0] == "2" and schema is not None:
            whole = resolved(document, schema)
            chosen = whole["properties"]["data"] if one.enveloped else whole
            yield from resolved(document, chosen).get("anyOf", [chosen])


def schema_of(documents: dict[str, Any], service: str, name: str) -> Schema:
    found: Schema = documents[service]["components"]["schemas"][name]
    return found


def test_events_and_records_of_streams_have_the_fields_of_the_platform(documents: dict[str, Any]) -> None:
    events = list(fields(documents["run"], schema_of(documents, "run", "RunEvent"), RunEvent, "event"))
    records = list(fields(documents["main"], schema_of(documents, "main", "TopicRecord"), PagedRecord, "record"))
    assert events == []
    assert records == []
    assert Change.__annotations__.keys() == {"kind", "id", "record"}


@pytest.mark.parametrize(
    ("service", "name", "names"),
    [
        ("vector", "Point", set(Point.__dataclass_fields__)),
        ("vector", "SearchRequest", set(Search.__annotations__)),
        ("vector", "OrderBy", set(OrderBy.__annotations__)),
        ("vector", "ScrollRequest", {*ScrollOptions.__annotations__, "collection", "offset"}),
    ],
)
def test_what_callers_give_has_the_fields_of_the_platform(
    service: str, name: str, names: set[str], documents: dict[str, Any]
) -> None:
    assert set(schema_of(documents, service, name)["properties"]) == names


def test_options_of_messages_are_those_of_the_platform(documents: dict[str, Any]) -> None:
    offered = set(schema_of(documents, "run", "RunRequest")["properties"])
    words = [name.split("_") for name in RunOptions.__annotations__ if name not in ("join", "idempotency_key")]
    given = {first + "".join(word.title() for word in rest) for first, *rest in words}
    assert offered - given == {"appName", "newMessage", "streaming"}
    assert given - offered == set()


def test_the_comparison_finds_what_differs(documents: dict[str, Any]) -> None:
    schema = schema_of(documents, "run", "Session")
    assert list(fields(documents["run"], schema, PagedRecord, "s")) != []
    one = {"type": "object", "properties": {"partition": {"type": "string"}}, "required": []}
    found = list(fields(documents["run"], one, PagedRecord, "s"))
    assert "s.partition: the platform may leave it out" in found
    assert "s.partition: string is not <class 'int'>" in found
    assert "s.offset: the platform has no such field" in found
