from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_core import from_json
from support import Clock, FakePlatform

from flotilla_client._engine import AsyncioEngine, BlockingEngine

PLATFORM_HOME = os.environ.get("FLOTILLA_TEST_HOME")
"""The data directory of a running platform that has an agent `rover`."""

DOCUMENTS = {
    "vector": ("vector_url", "/v1/openapi.json"),
    "hub": ("hub_url", "/openapi.json"),
    "run": ("agent_gateway_url", "/openapi.json"),
    "main": ("base_url", "/api/v1/openapi.json"),
    "webhook": ("webhook_url", "/api/v1/webhooks/openapi.json"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PLATFORM_HOME is not None:
        return
    for item in items:
        if item.get_closest_marker("platform") is not None:
            item.add_marker(pytest.mark.skip(reason="FLOTILLA_TEST_HOME names no running platform"))


@pytest.fixture(autouse=True)
def _no_variables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests do not depend on whose machine they run on; those of the platform find it by its data directory."""
    for name in list(os.environ):
        if name.startswith("FLOTILLA_") or name == "WEBHOOK_GATEWAY":
            monkeypatch.delenv(name)
    is_marked = request.node.get_closest_marker("platform") is not None
    monkeypatch.setenv("FLOTILLA_HOME", str(PLATFORM_HOME if is_marked else tmp_path))


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform()


@pytest.fixture(scope="session")
def documents() -> dict[str, Any]:
    """The OpenAPI documents of the running platform, by service."""
    addresses = from_json((Path(str(PLATFORM_HOME)) / "run" / "addresses.json").read_bytes())
    return {name: httpx2.get(addresses[url] + path).json() for name, (url, path) in DOCUMENTS.items()}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of every client that is made behind this."""
    made = Clock()

    async def sleep(_: object, seconds: float) -> None:
        await made.sleep(seconds)

    for engine in (BlockingEngine, AsyncioEngine):
        monkeypatch.setattr(engine, "now", lambda _: made.now())
        monkeypatch.setattr(engine, "sleep", sleep)
    return made
