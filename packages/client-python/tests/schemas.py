"""Compares models with JSON schemas, in both directions; returns what differs, a line each."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

Schema = dict[str, Any]

_SCALARS = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}


def differences(document: Schema, schema: Schema, annotation: Any, where: str) -> Iterator[str]:
    """How an annotation differs from the schema of an answer."""
    schema = resolved(document, schema)
    choices = schema.get("anyOf") or schema.get("oneOf")
    kinds = schema.get("type")
    if isinstance(kinds, list):
        choices = [{**schema, "type": kind} for kind in kinds]
    if choices:
        for one in choices:
            matching = [member for member in members(annotation) if matches(document, one, member)]
            if not matching:
                yield f"{where}: {resolved(document, one).get('type')} is read by no member of {annotation}"
            for member in matching[:1]:
                yield from differences(document, one, member, where)
        return
    if kinds is None:  # Anything.
        return
    member = next((one for one in members(annotation) if matches(document, schema, one)), None)
    if member is None:
        yield f"{where}: {kinds} is not {annotation}"
    elif isinstance(member, type) and issubclass(member, BaseModel):
        yield from fields(document, schema, member, where)
    elif get_origin(member) is list:
        yield from differences(document, schema.get("items", {}), get_args(member)[0], f"{where}[]")


def fields(document: Schema, schema: Schema, model: type[BaseModel], where: str) -> Iterator[str]:
    """How the fields of a model differ from those of an object."""
    properties: Schema = schema.get("properties", {})
    required = set(schema.get("required", ()))
    named = {info.alias or name: info for name, info in model.model_fields.items() if not info.exclude}
    for name in sorted(properties.keys() - named.keys()):
        yield f"{where}.{name}: {model.__name__} lacks it"
    for name in sorted(named.keys() - properties.keys()):
        yield f"{where}.{name}: the platform has no such field"
    for name in sorted(named.keys() & properties.keys()):
        if named[name].is_required() and name not in required:
            yield f"{where}.{name}: the platform may leave it out"
        yield from differences(document, properties[name], named[name].annotation, f"{where}.{name}")


def resolved(document: Schema, schema: Schema) -> Schema:
    """The schema that a reference names."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def members(annotation: Any) -> list[Any]:
    """The members of a union, or the annotation itself."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [inner for member in get_args(annotation) for inner in members(member)]
    return [annotation]


def matches(document: Schema, schema: Schema, member: Any) -> bool:
    """Whether a value of the schema's kind is read by the member."""
    kind = resolved(document, schema).get("type")
    if member is Any or kind is None:
        return True
    origin = get_origin(member)
    if origin is Literal:
        return False  # Each comes with str, since a newer platform may have other values.
    if kind == "array":
        return origin is list
    if kind == "object":
        return origin is dict or (isinstance(member, type) and issubclass(member, BaseModel))
    scalar = _SCALARS[kind]
    return member is scalar or (scalar is int and member is float)
