"""How bytes travel: the one part that a blocking and an asyncio client do differently.

Everything above is written once, as coroutines. The engine of a blocking client blocks in place of suspending, so that
its coroutines run to their end in one go, without an event loop and without threads (``run``).
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import httpx2

from .errors import FlotillaError, own_error

T = TypeVar("T")

# The platform sends something every fifteen seconds.
SILENCE_MAX = 45.0


@dataclass(frozen=True)
class Outgoing:
    """One attempt at a request. Its repr leaves out the headers, which hold the credential, and the body."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(repr=False)
    timeout: float


@dataclass(frozen=True)
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class OpenReply:
    """An answer that goes on. `chunks` raises FlotillaError where the connection breaks or falls silent."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    read: Callable[[], Awaitable[bytes]]
    close: Callable[[], Awaitable[None]]


class Engine(Protocol):
    """Sends, waits and locks. Raises FlotillaError `no_answer`, `timeout` or `closed`."""

    async def send(self, outgoing: Outgoing) -> Reply: ...

    async def open(self, outgoing: Outgoing) -> OpenReply: ...

    async def sleep(self, seconds: float) -> None: ...

    def now(self) -> float:
        """Seconds that only go forward: a clock that is set changes nothing."""

    def lock(self) -> AbstractAsyncContextManager[None]: ...

    async def close(self) -> None: ...


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine whose engine blocks."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking client cannot wait for an event loop")


def _fault(error: Exception, outgoing: Outgoing, is_closed: bool) -> FlotillaError:
    """The fault of an attempt without an answer; it names the host alone, as an address may hold a password."""
    if is_closed:
        return own_error("closed", "the client was closed")
    host = httpx2.URL(outgoing.url).netloc.decode("ascii", "replace")
    if isinstance(error, (httpx2.TimeoutException, TimeoutError)):
        return own_error("timeout", f"no answer from {host} within {outgoing.timeout:g} s")
    reason = _reason(error)
    return own_error("no_answer", f"the connection to {host} failed before an answer came{reason}")


def _reason(error: BaseException | None) -> str:
    """The system's code, for example ECONNREFUSED, from wherever it is in the chain of causes."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
            return f" ({errno.errorcode[error.errno]})"
        error = error.__cause__ or error.__context__
    return ""


_transport_faults = (httpx2.RequestError, httpx2.StreamError, OSError)


class BlockingEngine:
    """For threads. One engine serves any number of them."""

    def __init__(self, transport: httpx2.BaseTransport | None = None) -> None:
        self._client = httpx2.Client(transport=transport, timeout=30)
        self._closing = threading.Event()
        self._connections: WeakSet[Any] = WeakSet()
        self._mutex = threading.Lock()

    async def send(self, outgoing: Outgoing) -> Reply:
        end = time.monotonic() + outgoing.timeout
        response = self._begin(outgoing, outgoing.timeout)
        try:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                # httpx2 limits each read, not their sum: a server that drips would hold the caller.
                if time.monotonic() > end:
                    raise TimeoutError
        except _transport_faults as error:
            raise _fault(error, outgoing, self._closing.is_set()) from error
        finally:
            response.close()
        return Reply(response.status_code, response.headers, bytes(body))

    async def open(self, outgoing: Outgoing) -> OpenReply:
        response = self._begin(outgoing, max(outgoing.timeout, SILENCE_MAX))

        async def chunks() -> AsyncIterator[bytes]:
            try:
                for chunk in response.iter_bytes():
                    yield chunk
            except _transport_faults as error:
                raise _fault(error, outgoing, self._closing.is_set()) from error

        async def read() -> bytes:
            return b"".join([chunk async for chunk in chunks()])

        async def close() -> None:
            response.close()

        return OpenReply(response.status_code, response.headers, chunks(), read, close)

    def _begin(self, outgoing: Outgoing, read_timeout: float) -> httpx2.Response:
        if self._closing.is_set():
            raise own_error("closed", "the client was closed")
        try:
            timeout = httpx2.Timeout(outgoing.timeout, read=read_timeout)
            request = self._client.build_request(
                outgoing.method,
                outgoing.url,
                content=outgoing.content,
                headers=outgoing.headers,
                timeout=timeout,
                extensions={"trace": self._trace},
            )
            return self._client.send(request, stream=True)
        except _transport_faults as error:
            raise _fault(error, outgoing, self._closing.is_set()) from error

    async def sleep(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise own_error("closed", "the client was closed")

    def now(self) -> float:
        return time.monotonic()

    def lock(self) -> AbstractAsyncContextManager[None]:
        return FairLock()

    async def close(self) -> None:
        self._closing.set()
        with self._mutex:
            connections = list(self._connections)
        for connection in connections:
            # Closing a socket does not wake the thread that reads from it.
            with suppress(OSError):
                connection.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._client.close()

    def _trace(self, event: str, details: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            with self._mutex:
                self._connections.add(details["return_value"])


class AsyncioEngine:
    """For one event loop."""

    def __init__(self, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._client = httpx2.AsyncClient(transport=transport, timeout=30)
        self._closing = asyncio.Event()

    async def send(self, outgoing: Outgoing) -> Reply:
        try:
            async with asyncio.timeout(outgoing.timeout):
                response = await self._begin(outgoing, outgoing.timeout)
                try:
                    body = await response.aread()
                finally:
                    await response.aclose()
        except (*_transport_faults, TimeoutError) as error:
            raise _fault(error, outgoing, self._closing.is_set()) from error
        return Reply(response.status_code, response.headers, body)

    async def open(self, outgoing: Outgoing) -> OpenReply:
        try:
            async with asyncio.timeout(outgoing.timeout):
                response = await self._begin(outgoing, SILENCE_MAX)
        except (*_transport_faults, TimeoutError) as error:
            raise _fault(error, outgoing, self._closing.is_set()) from error

        async def chunks() -> AsyncIterator[bytes]:
            try:
                async for chunk in response.aiter_bytes():
                    yield chunk
            except _transport_faults as error:
                raise _fault(error, outgoing, self._closing.is_set()) from error

        async def read() -> bytes:
            return b"".join([chunk async for chunk in chunks()])

        return OpenReply(response.status_code, response.headers, chunks(), read, response.aclose)

    async def _begin(self, outgoing: Outgoing, read_timeout: float) -> httpx2.Response:
        if self._closing.is_set():
            raise own_error("closed", "the client was closed")
        timeout = httpx2.Timeout(outgoing.timeout, read=read_timeout)
        request = self._client.build_request(
            outgoing.method, outgoing.url, content=outgoing.content, headers=outgoing.headers, timeout=timeout
        )
        return await self._client.send(request, stream=True)

    async def sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return
        raise own_error("closed", "the client was closed")

    def now(self) -> float:
        return time.monotonic()

    def lock(self) -> AbstractAsyncContextManager[None]:
        return asyncio.Lock()

    async def close(self) -> None:
        self._closing.set()
        await self._client.aclose()


class FairLock(AbstractAsyncContextManager[None]):
    """Lets threads in one at a time, in the order in which they came; `threading.Lock` promises no order."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._turns: deque[threading.Event] = deque()
        self._is_held = False

    async def __aenter__(self) -> None:
        with self._mutex:
            if not self._is_held:
                self._is_held = True
                return
            turn = threading.Event()
            self._turns.append(turn)
        try:
            turn.wait()
        except BaseException:  # Ctrl-C: a turn nobody takes would block all behind it.
            with self._mutex:
                if turn in self._turns:
                    self._turns.remove(turn)
                else:
                    self._pass_on()
            raise

    async def __aexit__(self, *_: object) -> None:
        with self._mutex:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._turns:
            self._turns.popleft().set()
        else:
            self._is_held = False
