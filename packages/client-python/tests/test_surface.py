"""Both clients have the same calls, and a fault crosses processes."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from flotilla_client import AsyncFlotilla, Flotilla, NotFound
from flotilla_client._blocking import Blocking
from flotilla_client._engine import run
from flotilla_client._run_streams import EventStream
from flotilla_client.errors import FieldError

# A connection ends by another name where that is a coroutine.
RENAMED = {"aclose": "close"}


def groups() -> list[tuple[str, object, object]]:
    """The clients, and their groups of calls, with the groups in these."""
    blocking, asynchronous = Flotilla(api_key="k"), AsyncFlotilla(api_key="k")
    pairs: list[tuple[str, object, object]] = [("fleet", blocking, asynchronous)]
    for name, one, other in pairs:
        for inner, value in vars(one).items():
            if isinstance(value, Blocking):
                pairs.append((f"{name}.{inner}", value, getattr(other, inner)))
    streams = EventStream(asynchronous.runs.resume("r")), asynchronous.runs.resume("r")
    return [*pairs, ("stream", *streams)]


def public(value: object) -> dict[str, Any]:
    """Methods and attributes by name; an attribute counts by its name alone."""
    held = dict.fromkeys(name for name in vars(value) if not name.startswith("_"))
    kind = type(value)
    return held | {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("name", "blocking", "asynchronous"), groups(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_clients_have_the_same_calls_with_the_same_arguments(
    name: str, blocking: object, asynchronous: object
) -> None:
    one, other = public(blocking), public(asynchronous)
    assert set(one) == {RENAMED.get(each, each) for each in other}
    for each, call in other.items():
        if callable(call):
            given, expected = (inspect.signature(made).parameters for made in (one[RENAMED.get(each, each)], call))
            assert list(given) == list(expected), f"{name}.{each}"
            assert inspect.getdoc(call), f"{name}.{each} has no docstring"


def test_every_group_is_compared() -> None:
    names = {name for name, _, _ in groups()}
    assert {"fleet.memory.collections", "fleet.runs.sessions", "fleet.runs.dispatches", "fleet.main"} <= names
    assert len(names) == 13


def test_a_fault_crosses_processes() -> None:
    fault = NotFound(
        "point_not_found", 404, "No point.", retry_after=2, errors=(FieldError("a", "b"),), members={"x": 1}
    )
    for other in (pickle.loads(pickle.dumps(fault)), copy.copy(fault), fault.again()):
        assert type(other) is NotFound
        assert (str(other), other.errors, dict(other.members)) == (str(fault), fault.errors, {"x": 1})


def test_a_blocking_client_never_waits_for_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="cannot wait for an event loop"):
        run(_suspended())


async def _suspended() -> None:
    class Once:
        def __await__(self) -> Any:
            yield

    await Once()


async def test_a_blocking_client_works_within_an_event_loop() -> None:
    with Flotilla(vector_url="http://127.0.0.1:9", api_key="k", attempts_max=1) as fleet:
        with pytest.raises(Exception, match="no_answer"):
            list(fleet.memory.scroll("posts"))
