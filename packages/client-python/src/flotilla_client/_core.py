"""Sends requests: with a credential, with time-outs, and again where that helps and does no harm."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field, ValidationError

from ._credentials import Credential
from ._engine import Engine, OpenReply, Outgoing, Reply
from ._request import Endpoint, Request, Service, endpoint
from ._version import __version__
from .errors import FlotillaError, error_of_answer, is_away, own_error

T = TypeVar("T")
A = TypeVar("A", Reply, OpenReply)

log = logging.getLogger("flotilla_client")

_BACKOFF_BASE = 0.1
_BACKOFF_MAX = 2.0
_LIMIT_CODES = frozenset(("rate_limited", "too_many_concurrent", "quota_exceeded"))


class IdToken(BaseModel):
    """An ID token; `expires_in` is in seconds."""

    id_token: str = Field(alias="idToken", repr=False)
    expires_in: float = Field(alias="expiresIn")


EXCHANGE_PATH = "/identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken"
EXCHANGE = endpoint("main", "POST", EXCHANGE_PATH, IdToken, query="key", body="token returnSecureToken", open=True)


@dataclass(frozen=True)
class Limits:
    """How long and how often a call is tried; times in seconds."""

    timeout: float = 30.0
    """One attempt may take this long."""
    retry_for: float = 20.0
    """A call that is safe to repeat is repeated for this long after its first fault."""
    attempts_max: int | None = None
    """Bounds the attempts of a call, too."""
    wait_max: float = 10.0
    """A longer wait that the server asks for is not waited for: the fault is raised and names it."""
    wait_out_limits: float = 0.0
    """Refusals of the agent's limits are waited out for this long in all, however many attempts that takes."""


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What an answer holds, and its headers."""

    data: T
    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Core:
    """Everything that both clients share: addresses, credentials, limits, and the engine that differs."""

    engine: Engine
    addresses: Mapping[Service, str]
    exchange_url: str | None = None
    limits: Limits = field(default_factory=Limits)
    credentials: dict[Service, Credential] = field(default_factory=dict, repr=False)
    random: Callable[[], float] = random.random

    def with_limits(self, **changes: Any) -> Core:
        """The same connections and credentials under other limits."""
        return replace(self, limits=replace(self.limits, **changes))

    async def call(self, request: Request[T]) -> T:
        """The answer's data."""
        return (await self.respond(request)).data

    async def respond(self, request: Request[T]) -> Answer[T]:
        """The answer's data with its headers."""
        reply = await self._authorized(request, self.engine.send)
        return Answer(_read(request.endpoint, reply), reply.status, reply.headers)

    async def open(self, request: Request[Any]) -> OpenReply:
        """An answer that goes on; the caller closes it."""
        return await self._authorized(request, self.engine.open)

    async def exchange(self, body: Mapping[str, Any], web_api_key: str) -> IdToken:
        """Trades a custom token at the identity provider, which may have an address of its own."""
        request = EXCHANGE.request(query={"key": web_api_key}, body=body)
        reply = await self._repeated(request, None, self.engine.send, self.exchange_url)
        return _read(EXCHANGE, reply)

    async def _authorized(self, request: Request[Any], send: Callable[[Outgoing], Awaitable[A]]) -> A:
        credential = None if request.endpoint.open else self.credentials.get(request.endpoint.service)
        if credential is None:
            return await self._repeated(request, None, send)
        value = await credential.get()
        try:
            return await self._repeated(request, value, send)
        except FlotillaError as error:
            # It was revoked or has expired meanwhile: one more try with a new one.
            if error.status != 401 or not credential.refused(value):
                raise
        return await self._repeated(request, await credential.get(), send)

    async def _repeated(
        self,
        request: Request[Any],
        bearer: str | None,
        send: Callable[[Outgoing], Awaitable[A]],
        url: str | None = None,
    ) -> A:
        outgoing = self._outgoing(request, bearer, url)
        patience = self.limits.wait_out_limits
        first_fault: float | None = None
        tries = sent = 0
        while True:
            sent += 1
            try:
                return await self._attempt(request, outgoing, send)
            except FlotillaError as error:
                error.attempts = sent
                if error.code in _LIMIT_CODES and patience > 0:
                    wait = self._wait(error, 1)
                    if wait > patience:
                        raise
                    patience -= wait
                else:
                    tries += 1
                    now = self.engine.now()
                    first_fault = now if first_fault is None else first_fault
                    wait = self._wait(error, tries)
                    if not self._again(request, error, tries, wait, now - first_fault):
                        raise
                log.debug("%s %s: %s, again in %.2f s", request.endpoint.method, request.path, error.code, wait)
            await self.engine.sleep(wait)

    def _again(self, request: Request[Any], error: FlotillaError, tries: int, wait: float, passed: float) -> bool:
        limits = self.limits
        if limits.attempts_max is not None and tries >= limits.attempts_max:
            return False
        return may_repeat(request, error) and wait <= limits.wait_max and passed + wait <= limits.retry_for

    def _wait(self, error: FlotillaError, tries: int) -> float:
        """The server's own time, or exponential back-off; jitter keeps clients apart."""
        if error.retry_after is not None:
            return error.retry_after + self.random() * _BACKOFF_BASE
        return self.random() * min(_BACKOFF_BASE * 2.0 ** min(tries, 16), _BACKOFF_MAX)

    def _outgoing(self, request: Request[Any], bearer: str | None, url: str | None) -> Outgoing:
        headers = {"accept": "application/json", "user-agent": f"flotilla-client/{__version__}"}
        if request.content is not None:
            headers["content-type"] = "application/json"
        headers.update(request.headers)
        if bearer is not None:
            headers["authorization"] = f"Bearer {bearer}"
        _trace(headers)
        query = request.target[len(request.path) :]
        address = f"{url}{query}" if url else self.addresses[request.endpoint.service] + request.target
        return Outgoing(request.endpoint.method, address, headers, request.content, self.limits.timeout)

    async def _attempt(self, request: Request[Any], outgoing: Outgoing, send: Callable[[Outgoing], Awaitable[A]]) -> A:
        begun = self.engine.now()
        reply = await send(outgoing)
        took = (self.engine.now() - begun) * 1000
        name = reply.headers.get("x-request-id", "-")
        log.debug("%s %s: %d in %.0f ms, request %s", outgoing.method, request.path, reply.status, took, name)
        # A proxy's page in place of the service's JSON is no answer, whatever its status.
        is_json = "json" in reply.headers.get("content-type", "")
        if 200 <= reply.status < 300 or (reply.status in request.endpoint.answers and is_json):
            return reply
        if isinstance(reply, Reply):
            raise error_of_answer(reply.status, reply.headers, reply.body)
        try:
            body = await reply.read()
        finally:
            await reply.close()
        raise error_of_answer(reply.status, reply.headers, body)


def may_repeat(request: Request[Any], error: FlotillaError) -> bool:
    """Whether another attempt may succeed and cannot do anything twice."""
    if error.status == 429:
        return error.code != "quota_exceeded"
    return request.repeatable and (is_away(error) or error.code == "idempotency_in_progress")


def _read(described: Endpoint[T], reply: Reply) -> T:
    try:
        if not described.enveloped:
            return described.adapter.validate_json(reply.body)
        return described.enveloped_adapter.validate_json(reply.body).data
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        detail = f"the answer to {described.method} {described.path} cannot be read: {where} {first['msg']}"
        raise own_error("invalid_answer", detail) from None


def _trace(headers: dict[str, str]) -> None:
    """Carries the caller's trace, where it has OpenTelemetry."""
    propagate = sys.modules.get("opentelemetry.propagate")
    if propagate is not None:
        propagate.inject(headers)
