"""Adapters are tested on a running platform that has an agent `rover`: FLOTILLA_TEST_HOME is its data directory."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from flotilla_client import AsyncFlotilla, Flotilla

PLATFORM_HOME = os.environ["FLOTILLA_TEST_HOME"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out blocking calls of a framework's suite where a class has none: the suite would skip them."""
    items[:] = [
        item
        for item in items
        if item.name.endswith("_async") or not getattr(getattr(item, "cls", None), "only_async", False)
    ]


@pytest.fixture(autouse=True)
def _platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of the environment are `rover`, too."""
    for name in [name for name in os.environ if name.startswith("FLOTILLA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FLOTILLA_HOME", PLATFORM_HOME)
    monkeypatch.setenv("FLOTILLA_AGENT_ID", "rover")


@pytest.fixture(scope="session")
def fleet() -> Iterator[Flotilla]:
    with Flotilla(agent_id="rover", home=PLATFORM_HOME, wait_out_limits=60) as made:
        yield made


@pytest.fixture
async def async_fleet() -> AsyncIterator[AsyncFlotilla]:
    async with AsyncFlotilla(agent_id="rover", home=PLATFORM_HOME, wait_out_limits=60) as made:
        yield made
