"""Handshakes: one however many wait, renewed in time, whatever the clock says, and never shown."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from support import PEM, SEARCH, URLS, Clock, FakePlatform, answer, problem

from flotilla_client import AsyncFlotilla, Flotilla, FlotillaError, Unauthorized

VECTOR = [1.0]


def test_fifty_threads_make_one_handshake(platform: FakePlatform) -> None:
    platform.handshake_seconds = 0.05
    with platform.client() as fleet, ThreadPoolExecutor(50) as pool:
        list(pool.map(lambda _: fleet.memory.search("posts", vector=VECTOR), range(50)))
    assert platform.handshakes == 1
    assert len(platform.sent) == 50


async def test_five_hundred_tasks_make_one_handshake(platform: FakePlatform) -> None:
    async with platform.async_client() as fleet:
        await asyncio.gather(*(fleet.memory.search("posts", vector=VECTOR) for _ in range(500)))
    assert platform.handshakes == 1
    assert len(platform.sent) == 500


def test_fifty_threads_renew_a_refused_key_once(platform: FakePlatform) -> None:
    with platform.client() as fleet, ThreadPoolExecutor(50) as pool:
        fleet.memory.search("posts", vector=VECTOR)
        platform.valid = "vk_live_another"  # The key that they hold was revoked.
        platform.handshake_seconds = 0.05
        list(pool.map(lambda _: fleet.memory.search("posts", vector=VECTOR), range(50)))
    assert platform.handshakes == 2


async def test_five_hundred_tasks_renew_a_key_that_runs_out_once(platform: FakePlatform, clock: Clock) -> None:
    async with platform.async_client() as fleet:
        for _ in range(2):
            await asyncio.gather(*(fleet.memory.search("posts", vector=VECTOR) for _ in range(500)))
            clock.seconds += 3300
    assert platform.handshakes == 2


def test_a_key_is_renewed_when_a_tenth_of_its_life_is_left(platform: FakePlatform, clock: Clock) -> None:
    with platform.client() as fleet:
        fleet.memory.search("posts", vector=VECTOR)
        clock.seconds += 3239
        fleet.memory.search("posts", vector=VECTOR)
        assert platform.handshakes == 1
        clock.seconds += 2
        fleet.memory.search("posts", vector=VECTOR)
    assert platform.handshakes == 2
    assert not any(response.headers.get("authorization") == "" for response in platform.sent)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_off_by_an_hour_changes_nothing(
    hours: int, platform: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
    with platform.client() as fleet:
        for _ in range(3):
            fleet.memory.search("posts", vector=VECTOR)
        monkeypatch.setattr(time, "time", real)  # It is set right while the client runs.
        fleet.memory.search("posts", vector=VECTOR)
    assert platform.handshakes == 1


def test_a_second_refusal_is_the_callers(platform: FakePlatform) -> None:
    platform.script = [problem(401, "unauthorized")] * 5
    with platform.client() as fleet, pytest.raises(Unauthorized):
        fleet.memory.search("posts", vector=VECTOR)
    assert len(platform.sent) == 2
    assert platform.handshakes == 2


async def test_those_who_wait_for_a_handshake_share_its_fault(platform: FakePlatform) -> None:
    platform.refuses_handshakes = True
    async with platform.async_client() as fleet:
        calls = [fleet.memory.search("posts", vector=VECTOR) for _ in range(100)]
        faults = await asyncio.gather(*calls, return_exceptions=True)
        assert {fault.code for fault in faults if isinstance(fault, FlotillaError)} == {"unknown_agent"}
        assert len({id(fault) for fault in faults}) == 100
        assert platform.handshakes == 1
        platform.refuses_handshakes = False
        await fleet.memory.search("posts", vector=VECTOR)


async def test_a_task_that_is_canceled_in_a_handshake_holds_up_nobody(platform: FakePlatform) -> None:
    entered, goes_on = asyncio.Event(), asyncio.Event()

    async def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("handshake") and not entered.is_set():
            entered.set()
            await goes_on.wait()
        return platform.handle(request)

    transport = httpx2.MockTransport(handle)
    async with AsyncFlotilla(transport=transport, agent_id="whale", private_key_pem=PEM, **URLS) as fleet:  # type: ignore[arg-type]
        first = asyncio.create_task(fleet.memory.search("posts", vector=VECTOR))
        await entered.wait()
        second = asyncio.create_task(fleet.memory.search("posts", vector=VECTOR))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait_for(second, 5)
    assert first.cancelled()


def of_agent_key(request: httpx2.Request) -> httpx2.Response:
    if request.url.path == "/api/v1/auth/agent":
        assert json.loads(request.content) == {"key": "svc_" + "a" * 64}
        data = {"customToken": "custom", "expiresIn": 3600, "agent": {}}
        return answer({"ok": True, "data": data})
    if request.url.path.endswith(":signInWithCustomToken"):
        assert request.url.params["key"] == "local"
        assert json.loads(request.content) == {"token": "custom", "returnSecureToken": True}
        return answer({"idToken": "id-token", "expiresIn": "3600"})
    assert request.headers["authorization"] == "Bearer id-token"
    return answer(SEARCH if request.url.host == "vector.test" else {"ok": True, "data": []})


def test_an_agent_key_buys_an_id_token_for_every_interface() -> None:
    sent: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.url.host)
        return of_agent_key(request)

    with Flotilla(transport=httpx2.MockTransport(handle), agent_key=f"svc_{'a' * 64}\n", **URLS) as fleet:  # type: ignore[arg-type]
        assert fleet.main.request("GET", "log/groups") == []
        fleet.memory.search("posts", vector=VECTOR)
        assert fleet.main.id_token() == "id-token"
    assert sent == ["base.test", "base.test", "base.test", "vector.test"]


def test_the_identity_provider_may_have_an_address_of_its_own() -> None:
    asked: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.url.host}{request.url.path}?{request.url.query.decode()}")
        return of_agent_key(request)

    url = "http://identity.test/v1/accounts:signInWithCustomToken"
    options: dict[str, Any] = {"agent_key": f"svc_{'a' * 64}", "identity_exchange_url": url, **URLS}
    with Flotilla(transport=httpx2.MockTransport(handle), **options) as fleet:
        fleet.main.id_token()
    assert asked[1] == "identity.test/v1/accounts:signInWithCustomToken?key=local"


def test_an_id_token_may_come_from_a_function_that_is_asked_again_after_a_refusal() -> None:
    tokens = iter(["old", "old", "new", "new"])

    def handle(request: httpx2.Request) -> httpx2.Response:
        is_good = request.headers["authorization"] == "Bearer new"
        return answer({"ok": True, "data": 1}) if is_good else problem(401, "token_expired")

    options: dict[str, Any] = {"id_token": lambda: next(tokens), **URLS}
    next(tokens)
    with Flotilla(transport=httpx2.MockTransport(handle), **options) as fleet:
        assert fleet.main.request("GET", "log/groups") == 1


def test_a_given_gateway_key_is_used_as_it_is(platform: FakePlatform) -> None:
    platform.valid = "vk_live_given"
    with platform.client(agent_id=None, private_key_pem=None, api_key="vk_live_given") as fleet:
        fleet.memory.search("posts", vector=VECTOR)
        platform.valid = "vk_live_another"
        with pytest.raises(Unauthorized):
            fleet.memory.search("posts", vector=VECTOR)
    assert len(platform.sent) == 2
    assert platform.handshakes == 0


def test_secrets_are_in_no_repr_log_or_fault(platform: FakePlatform, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "svc_" + "b" * 64
    with platform.client(agent_key=secret, attempts_max=1) as fleet:
        key = fleet.api_key()
        platform.script = [httpx2.ConnectError("refused"), problem(500, "internal_error")]
        faults = []
        for _ in range(2):
            with pytest.raises(FlotillaError) as raised:
                fleet.memory.search("posts", vector=VECTOR)
            faults.append(f"{raised.value!r} {raised.value} {vars(raised.value)}")
        seen = f"{fleet!r} {vars(fleet)} {vars(fleet._calls)} {fleet._calls._core!r} {faults} {caplog.text}"
    assert "whale" in seen
    assert "internal_error" in seen
    for hidden in (key, secret, PEM.splitlines()[1]):
        assert hidden not in seen


@pytest.mark.parametrize(
    "pem", ["no key", "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIG\n-----END PRIVATE KEY-----"]
)
def test_a_key_that_is_none_is_reported_without_its_text(pem: str, platform: FakePlatform) -> None:
    with platform.client(private_key_pem=pem) as fleet, pytest.raises(ValueError, match="no PKCS#8 PEM") as raised:
        fleet.api_key()
    assert raised.value.__cause__ is None
    assert "MC4C" not in str(raised.value)


def test_a_key_of_another_kind_is_refused(platform: FakePlatform) -> None:
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with platform.client(private_key_pem=pem) as fleet, pytest.raises(ValueError, match="no Ed25519 key"):
        fleet.api_key()
