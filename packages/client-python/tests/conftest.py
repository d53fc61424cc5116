from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import Clock, FakePlatform

from flotilla_client._engine import AsyncioEngine, BlockingEngine


@pytest.fixture(autouse=True)
def _no_variables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests do not depend on whose machine they run on; those of the platform find it by its data directory."""
    for name in list(os.environ):
        if name.startswith("FLOTILLA_") or name == "WEBHOOK_GATEWAY":
            monkeypatch.delenv(name)
    monkeypatch.setenv("FLOTILLA_HOME", str(tmp_path))


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform()


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
