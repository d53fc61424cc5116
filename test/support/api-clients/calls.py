"""Makes the calls that standard input lists with clients of openapi-python-client, and prints what each parsed."""

import enum
import importlib
import inspect
import json
import re
import sys
import typing
from datetime import datetime


def snake(name):
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).replace("-", "_").lower()


def alternatives(annotation):
    return typing.get_args(annotation) or (annotation,)


def argument_of(parameter, value):
    for kind in alternatives(parameter.annotation):
        if inspect.isclass(kind) and issubclass(kind, enum.Enum):
            return kind(value)
    return value


def arguments_of(function, call):
    parameters = inspect.signature(function).parameters
    found = {}
    for place in call["parameters"].values():
        for name, value in place.items():
            # Names that mean something in Python end with an underscore.
            known = snake(name) if snake(name) in parameters else snake(name) + "_"
            found[known] = argument_of(parameters[known], value)
    if "body" in call:
        found["body"] = parameters["body"].annotation.from_dict(call["body"])
    return found


def same(left, right):
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, str) and isinstance(right, str) and left != right:
        # A time is written in another way.
        return datetime.fromisoformat(left) == datetime.fromisoformat(right)
    return left == right


def dictionaries(parsed):
    return [one.to_dict() for one in parsed] if isinstance(parsed, list) else parsed.to_dict()


def code_of(parsed):
    """Of a problem document, or of a fault in OpenAI's form."""
    code = getattr(parsed, "code", None) or getattr(getattr(parsed, "error", None), "code", None)
    return getattr(code, "value", code)


def made(call):
    package = call["package"]
    tag = call["tag"].replace(" ", "_")
    module = importlib.import_module(f"{package}.api.{tag}.{snake(call['operationId'])}")
    client_module = importlib.import_module(f"{package}.client")
    # Over plain HTTP no certificate is checked; without this each client reads those of all authorities.
    given = {"base_url": call["url"], "verify_ssl": False}
    if call["token"] is None:
        client = client_module.Client(**given)
    else:
        client = client_module.AuthenticatedClient(**given, token=call["token"])
    # Without a token the operation is called all the same: its answer is wanted.
    answer = module.sync_detailed(client=client, **arguments_of(module.sync_detailed, call))
    parsed = answer.parsed
    return {
        "status": answer.status_code.value,
        "type": type(parsed).__name__,
        "same": parsed is not None and same(dictionaries(parsed), json.loads(answer.content)),
        "code": code_of(parsed),
    }


print(json.dumps([made(call) for call in json.load(sys.stdin)]))
