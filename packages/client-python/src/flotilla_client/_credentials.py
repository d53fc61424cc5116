"""Credentials that run out: got when they are needed, renewed before they expire, and once after a 401."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import BaseModel, Field

from ._engine import Engine
from ._request import endpoint
from .errors import FlotillaError, own_error

if TYPE_CHECKING:
    from ._core import Core

T = TypeVar("T")

# It is renewed when less than this share of its lifetime is left.
_RENEW_SHARE = 0.1


class Challenge(BaseModel):
    """The gateway's half of a handshake; it expires after `expires_in` seconds."""

    client_nonce: str
    server_nonce: str
    public_key_fingerprint: str
    expires_in: float


class GatewayKey(BaseModel):
    """A key for the vector gateway, the hub and the run gateway; `expires_in` is in seconds."""

    api_key: str = Field(repr=False)
    expires_in: float


class CustomToken(BaseModel):
    """A token that an identity provider trades for an ID token, within `expires_in` seconds."""

    custom_token: str = Field(alias="customToken", repr=False)
    expires_in: float = Field(alias="expiresIn")
    agent: dict[str, str]


HANDSHAKE = endpoint("vector", "POST", "/v1/auth/handshake", Challenge, body="agent_id nonce", open=True)
# A challenge is used once: a repeated verification would be refused.
VERIFY = endpoint(
    "vector", "POST", "/v1/auth/verify", GatewayKey, body="agent_id signature", repeatable=False, open=True
)
TRADE = endpoint("main", "POST", "/api/v1/auth/agent", CustomToken, body="key", open=True, enveloped=True)


@dataclass(frozen=True)
class Obtained:
    """A credential and for how many seconds it is good."""

    value: str
    lifetime: float

    def __repr__(self) -> str:
        """Without the value."""
        return f"Obtained(lifetime={self.lifetime:g})"


class Credential(Protocol):
    """What a request carries as its bearer."""

    async def get(self) -> str: ...

    def refused(self, value: str) -> bool:
        """Notes that the value was answered 401; whether another may be had."""


class Fixed:
    """A credential that its user renews, or nobody: a text, or a function that returns the current one."""

    def __init__(self, given: str | Callable[[], str]) -> None:
        self._given = given

    async def get(self) -> str:
        return self._given if isinstance(self._given, str) else self._given()

    def refused(self, value: str) -> bool:
        return not isinstance(self._given, str)


class Held:
    """Gets a credential, once however many wait for it, and keeps it until a tenth of its life is left."""

    def __init__(self, engine: Engine, obtain: Callable[[], Awaitable[Obtained]]) -> None:
        self._now = engine.now
        self._lock = engine.lock()
        self._obtain = obtain
        self._held: tuple[str, float] | None = None
        self._running = 0
        self._failure: tuple[int, FlotillaError] | None = None
        self._is_running = False

    async def get(self) -> str:
        if value := self._fresh():
            return value
        awaited = self._running if self._is_running else None
        async with self._lock:
            if value := self._fresh():
                return value
            # Those who waited for an attempt share its fault: each trying again would be a flood of handshakes.
            if self._failure is not None and self._failure[0] == awaited:
                raise self._failure[1].again()
            self._running += 1
            self._is_running = True
            try:
                return await self._renew()
            except FlotillaError as error:
                self._failure = (self._running, error)
                raise
            finally:
                self._is_running = False

    async def _renew(self) -> str:
        begun = self._now()
        obtained = await self._obtain()
        self._held = (obtained.value, begun + obtained.lifetime * (1 - _RENEW_SHARE))
        self._failure = None
        return obtained.value

    def _fresh(self) -> str | None:
        held = self._held
        return held[0] if held is not None and self._now() < held[1] else None

    def refused(self, value: str) -> bool:
        held = self._held
        if held is not None and held[0] == value:
            self._held = None
        return True


class Missing:
    """Tells at the first call that needs it which credential there is none of."""

    def __init__(self, detail: str) -> None:
        self._detail = detail

    async def get(self) -> str:
        raise own_error("no_credential", self._detail)

    def refused(self, value: str) -> bool:
        return False


def gateway_key(core: Core, agent_id: str, read_pem: Callable[[], bytes]) -> Held:
    """A gateway key by handshake: the agent signs both nonces with its Ed25519 key, which never leaves the process."""
    key: Ed25519PrivateKey | None = None

    async def obtain() -> Obtained:
        nonlocal key
        key = key or _private_key(read_pem())
        hello = {"agent_id": agent_id, "nonce": secrets.token_hex(32)}
        challenge = await core.call(HANDSHAKE.request(body=hello))
        text = challenge.client_nonce + challenge.server_nonce
        proof = {"agent_id": agent_id, "signature": key.sign(text.encode()).hex()}
        issued = await core.call(VERIFY.request(body=proof))
        return Obtained(issued.api_key, issued.expires_in)

    return Held(core.engine, obtain)


def id_token(core: Core, read_key: Callable[[], str], web_api_key: str) -> Held:
    """An ID token: the agent key buys a custom token, and the identity provider trades that."""

    async def obtain() -> Obtained:
        trade = await core.call(TRADE.request(body={"key": read_key()}))
        body = {"token": trade.custom_token, "returnSecureToken": True}
        exchanged = await core.exchange(body, web_api_key)
        return Obtained(exchanged.id_token, exchanged.expires_in)

    return Held(core.engine, obtain)


def _private_key(pem: bytes) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        # The library's own words may quote the key.
        raise ValueError("the private key is no PKCS#8 PEM") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("the private key is no Ed25519 key")
    return key
