"""The clients: `Flotilla` blocks, `AsyncFlotilla` is for asyncio; both are made of the same calls."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import httpx2

from ._blocking import BlockingIterator
from ._core import Core, Limits
from ._credentials import Credential, Fixed, Missing, gateway_key, id_token
from ._engine import AsyncioEngine, BlockingEngine, Engine, run
from ._request import Service, endpoint
from ._settings import IdTokenSource, Options, Settings, settings_of
from ._sse import AWAY_MAX
from .hub import AsyncGoals, AsyncNotes, Goals, Notes
from .main_api import AsyncMain, Main
from .memory import AsyncMemory, Memory
from .platform_models import AgentDebug, Health, Stats, TopicRecord
from .records import records_of
from .runs import AsyncRuns, Runs
from .schedules import AsyncSchedules, Schedules
from .sessions import Agents, AsyncAgents
from .webhook_calls import AsyncWebhooks, Webhooks

_HEALTH = endpoint("vector", "GET", "/v1/health", Health, open=True, answers=frozenset((503,)))
_STATS = endpoint("vector", "GET", "/v1/stats", Stats)
_DEBUG = endpoint("vector", "GET", "/v1/debug/agent/{agent_id}", AgentDebug)


class ClientOptions(TypedDict, total=False):
    """What a client may be given; everything else comes from variables, then from the data directory.

    Attributes:
        agent_id: The agent; its key is that of the data directory unless a key is given.
        private_key_file: PKCS#8 PEM of the agent's Ed25519 key.
        private_key_pem: The same, as text or bytes.
        api_key: A gateway key, `vk_live_…`, which is not renewed.
        agent_key: `svc_…`, which buys ID tokens for the main API.
        id_token: An ID token, or a function that returns the current one.
        home: The data directory; `FLOTILLA_HOME`, else `.flotilla`.
        vector_url: The vector gateway; `FLOTILLA_VECTOR_URL`.
        hub_url: The hub; `FLOTILLA_HUB_URL`.
        run_url: The run gateway; `FLOTILLA_RUN_URL`.
        base_url: The main API; `FLOTILLA_BASE_URL`.
        webhook_url: The webhook relay, a URL or `host:port`; `FLOTILLA_WEBHOOK_URL`, `WEBHOOK_GATEWAY`.
        identity_exchange_url: Where custom tokens are traded; `FLOTILLA_IDENTITY_EXCHANGE_URL`.
        web_api_key: That of the Firebase project; `FLOTILLA_WEB_API_KEY`. The platform's own issuer takes any.
        timeout: One attempt may take so many seconds; 30.
        retry_for: A call that is safe to repeat is repeated for so many seconds after its first fault; 20.
        attempts_max: Bounds the attempts of a call; by default ``retry_for`` alone does.
        wait_max: A longer wait that the server asks for is not waited for, in seconds; 10.
        wait_out_limits: Refusals of the agent's limits are waited out for so many seconds in all; 0.

    """

    agent_id: str | None
    private_key_file: str | Path | None
    private_key_pem: str | bytes | None
    api_key: str | None
    agent_key: str | None
    id_token: IdTokenSource | None
    home: str | Path | None
    vector_url: str | None
    hub_url: str | None
    run_url: str | None
    base_url: str | None
    webhook_url: str | None
    identity_exchange_url: str | None
    web_api_key: str | None
    timeout: float
    retry_for: float
    attempts_max: int | None
    wait_max: float
    wait_out_limits: float


class LimitOptions(TypedDict, total=False):
    """How long and how often calls are tried, as in ``ClientOptions``."""

    timeout: float
    retry_for: float
    attempts_max: int | None
    wait_max: float
    wait_out_limits: float


class AsyncFlotilla:
    """The platform for agents, for one event loop: ``async with AsyncFlotilla() as fleet``.

    Nothing is sent before the first call. See ``ClientOptions`` for the arguments; ``transport`` replaces that of
    httpx2, for tests.
    """

    def __init__(self, *, transport: httpx2.AsyncBaseTransport | None = None, **options: Unpack[ClientOptions]) -> None:
        self._use(*_core(AsyncioEngine(transport), dict(options)))

    def _use(self, core: Core, agent_id: str | None) -> None:
        self._core = core
        self.agent_id = agent_id
        self.memory = AsyncMemory(core)
        self.notes = AsyncNotes(core)
        self.goals = AsyncGoals(core)
        self.runs = AsyncRuns(core)
        self.agents = AsyncAgents(core)
        self.schedules = AsyncSchedules(core)
        self.webhooks = AsyncWebhooks(core)
        self.main = AsyncMain(core)

    def with_options(self, **limits: Unpack[LimitOptions]) -> Self:
        """A client under other limits, over the same connections and credentials."""
        other = object.__new__(type(self))
        other._use(self._core.with_limits(**limits), self.agent_id)
        return other

    def records(
        self, topic: str, from_: str | None = None, *, follow: bool = True, away_max: float = AWAY_MAX
    ) -> AsyncGenerator[TopicRecord, None]:
        """The records of a topic from the beginning or behind a position, then new ones as they come.

        It goes on by itself behind cut connections and restarts of the platform, for ``away_max`` seconds without an
        answer, without a gap or a repeat. ``from_`` is `beginning` (default), `end`, or the ``position`` of the last
        record that was worked on. ``follow=False`` ends with the last present record. Raises FlotillaError
        `position_expired` where the log does not hold the
        position: ``members["earliest"]`` is the oldest that it holds.
        """
        return records_of(self._core, topic, from_, follow, away_max)

    async def api_key(self) -> str:
        """A valid gateway key, for calls of one's own."""
        return await self._core.credentials["vector"].get()

    async def health(self) -> Health:
        """How the vector gateway and its engines are, also when it says `fail`."""
        return await self._core.call(_HEALTH.request())

    async def stats(self) -> Stats:
        """Sizes and indexes of the collections, and the p95 of searches."""
        return await self._core.call(_STATS.request())

    async def debug_agent(self, agent_id: str | None = None) -> AgentDebug:
        """Sessions, last operations and limits of this agent, or of another for those who may look."""
        asked = agent_id or self.agent_id
        if asked is None:
            raise ValueError("give debug_agent an agent_id: this client was given none")
        return await self._core.call(_DEBUG.request(parts={"agent_id": asked}))

    async def close(self) -> None:
        """Ends the calls under way with the code `closed`; later ones fail at once."""
        await self._core.engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        """Without credentials."""
        return f"{type(self).__name__}(agent_id={self.agent_id!r})"


class Flotilla:
    """The platform for agents, for any number of threads: ``with Flotilla() as fleet``.

    Nothing is sent before the first call. See ``ClientOptions`` for the arguments; ``transport`` replaces that of
    httpx2, for tests.
    """

    def __init__(self, *, transport: httpx2.BaseTransport | None = None, **options: Unpack[ClientOptions]) -> None:
        calls = object.__new__(AsyncFlotilla)
        calls._use(*_core(BlockingEngine(transport), dict(options)))
        self._use(calls)

    def _use(self, calls: AsyncFlotilla) -> None:
        self._calls = calls
        self.agent_id = calls.agent_id
        self.memory = Memory(calls.memory)
        self.notes = Notes(calls.notes)
        self.goals = Goals(calls.goals)
        self.runs = Runs(calls.runs)
        self.agents = Agents(calls.agents)
        self.schedules = Schedules(calls.schedules)
        self.webhooks = Webhooks(calls.webhooks)
        self.main = Main(calls.main)

    def with_options(self, **limits: Unpack[LimitOptions]) -> Self:
        """A client under other limits, over the same connections and credentials."""
        other = object.__new__(type(self))
        other._use(self._calls.with_options(**limits))
        return other

    def records(
        self, topic: str, from_: str | None = None, *, follow: bool = True, away_max: float = AWAY_MAX
    ) -> BlockingIterator[TopicRecord]:
        """The records of a topic, as ``AsyncFlotilla.records``."""
        return BlockingIterator(self._calls.records(topic, from_, follow=follow, away_max=away_max))

    def api_key(self) -> str:
        """A valid gateway key, for calls of one's own."""
        return run(self._calls.api_key())

    def health(self) -> Health:
        """How the vector gateway and its engines are, also when it says `fail`."""
        return run(self._calls.health())

    def stats(self) -> Stats:
        """Sizes and indexes of the collections, and the p95 of searches."""
        return run(self._calls.stats())

    def debug_agent(self, agent_id: str | None = None) -> AgentDebug:
        """Sessions, last operations and limits of this agent, or of another for those who may look."""
        return run(self._calls.debug_agent(agent_id))

    def close(self) -> None:
        """Ends the calls under way with the code `closed`; later ones fail at once."""
        run(self._calls.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Without credentials."""
        return f"{type(self).__name__}(agent_id={self.agent_id!r})"


def _core(engine: Engine, given: dict[str, Any]) -> tuple[Core, str | None]:
    limits = {name: given.pop(name) for name in LimitOptions.__annotations__ if name in given}
    urls = {name: given.pop(f"{option}_url", None) for name, option in _URL_OPTIONS.items()}
    settings = settings_of(Options(**given, urls=urls), os.environ)
    core = Core(engine, settings.addresses, settings.exchange_url, Limits(**limits))
    core.credentials.update(_credentials(core, settings))
    return core, settings.agent_id


_URL_OPTIONS: Mapping[Service, str] = {
    "vector": "vector",
    "hub": "hub",
    "run": "run",
    "main": "base",
    "webhook": "webhook",
}


def _credentials(core: Core, settings: Settings) -> dict[Service, Credential]:
    """A gateway key for what agents do, an ID token for the main API; one alone serves for both."""
    key: Credential | None = None
    token: Credential | None = None
    if settings.api_key is not None:
        key = Fixed(settings.api_key)
    elif settings.read_pem is not None:
        key = gateway_key(core, settings.agent_id or "", settings.read_pem)
    if settings.id_token is not None:
        token = Fixed(settings.id_token)
    elif settings.agent_key is not None:
        agent_key = settings.agent_key.strip()
        token = id_token(core, lambda: agent_key, settings.web_api_key)
    missing = Missing(settings.missing)
    for_agents, for_main = key or token or missing, token or key or missing
    return {"vector": for_agents, "hub": for_agents, "run": for_agents, "main": for_main}
