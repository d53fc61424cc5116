"""A platform of the tests' own: it checks signatures, answers as a script says, and keeps what it was sent."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from flotilla_client import AsyncFlotilla, Flotilla

PRIVATE_KEY = Ed25519PrivateKey.generate()
PEM = PRIVATE_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

Handler = Callable[[httpx2.Request], httpx2.Response]
SEARCH = {"results": [], "took_ms": 1, "records_scanned": 0}
URLS: dict[str, str] = {f"{name}_url": f"http://{name}.test" for name in ("vector", "hub", "run", "base", "webhook")}


def problem(status: int, code: str, **members: Any) -> httpx2.Response:
    body = {"type": "about:blank", "title": "t", "status": status, "detail": f"says {code}", "code": code, **members}
    headers = {"content-type": "application/problem+json", "x-request-id": "r-1"}
    return httpx2.Response(status, headers=headers, content=json.dumps(body))


def html(status: int) -> httpx2.Response:
    return httpx2.Response(status, html="<html><body>Bad gateway</body></html>")


def answer(body: Any, status: int = 200, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json=body, headers=headers)


@dataclass
class FakePlatform:
    """Issues gateway keys by handshake, and answers everything else by `script`, then by `otherwise`."""

    expires_in: int = 3600
    handshake_seconds: float = 0.0
    script: list[httpx2.Response | Exception | Handler] = field(default_factory=list)
    otherwise: Any = field(default_factory=lambda: SEARCH)
    sent: list[httpx2.Request] = field(default_factory=list)
    handshakes: int = 0
    refuses_handshakes: bool = False
    valid: str | None = None
    nonces: dict[str, str] = field(default_factory=dict)
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/auth/handshake":
            return self._challenge(json.loads(request.content))
        if request.url.path == "/v1/auth/verify":
            return self._key(json.loads(request.content))
        with self.mutex:
            self.sent.append(request)
            given = self.script.pop(0) if self.script else None
        needs_key = request.url.host != "webhook.test" and not request.url.path.endswith(("/health", "/auth/agent"))
        if self.valid is not None and needs_key and request.headers.get("authorization") != f"Bearer {self.valid}":
            return problem(401, "unauthorized")
        if given is None:
            return answer(self.otherwise)
        if isinstance(given, Exception):
            raise given
        return given if isinstance(given, httpx2.Response) else given(request)

    def _challenge(self, body: dict[str, str]) -> httpx2.Response:
        with self.mutex:
            self.handshakes += 1
            number = self.handshakes
        if self.refuses_handshakes:
            return problem(401, "unknown_agent")
        self.nonces[body["agent_id"]] = body["nonce"] + f"server-{number}"
        nonces = {"client_nonce": body["nonce"], "server_nonce": f"server-{number}"}
        return answer({**nonces, "public_key_fingerprint": "SHA256:a", "expires_in": 60})

    def _key(self, body: dict[str, str]) -> httpx2.Response:
        try:
            signed = self.nonces[body["agent_id"]].encode()
            PRIVATE_KEY.public_key().verify(bytes.fromhex(body["signature"]), signed)
        except InvalidSignature:
            return problem(401, "invalid_signature")
        self.valid = f"vk_live_{self.handshakes}"
        return answer({"api_key": self.valid, "expires_in": self.expires_in})

    def client(self, **options: Any) -> Flotilla:
        def handle(request: httpx2.Request) -> httpx2.Response:
            time.sleep(self._seconds(request))
            return self.handle(request)

        return Flotilla(transport=httpx2.MockTransport(handle), **{**_options(), **options})

    def async_client(self, **options: Any) -> AsyncFlotilla:
        async def handle(request: httpx2.Request) -> httpx2.Response:
            # Without a pause each task would be done before the next begins.
            await asyncio.sleep(self._seconds(request) or 0.001)
            return self.handle(request)

        return AsyncFlotilla(transport=httpx2.MockTransport(handle), **{**_options(), **options})

    def _seconds(self, request: httpx2.Request) -> float:
        return self.handshake_seconds if request.url.path == "/v1/auth/handshake" else 0.0

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.sent]


def _options() -> dict[str, Any]:
    return {"agent_id": "whale", "private_key_pem": PEM, **URLS}


@dataclass
class Clock:
    """Time that passes only while a client sleeps, or when a test says so."""

    seconds: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
