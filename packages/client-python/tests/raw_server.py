"""A server that hangs, drips and cuts connections: its handlers write bytes themselves."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Heard:
    """A request: its first line, headers by lower-case name, and body."""

    line: str
    headers: dict[str, str]
    body: bytes


Connection = socket.socket
Handle = Callable[[Heard, Connection], None]


@dataclass
class RawServer:
    url: str
    heard: list[Heard] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)


@contextmanager
def raw_server(handle: Handle) -> Iterator[RawServer]:
    """Serves until the block ends; a connection is closed when its handler returns."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = RawServer(f"http://127.0.0.1:{listener.getsockname()[1]}")
    threads: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
                threads[-1].start()

    def serve(connection: Connection) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as reader:
            line = reader.readline().decode().strip()
            headers = {}
            while text := reader.readline().decode().strip():
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
            heard = Heard(line, headers, reader.read(int(headers.get("content-length", "0"))))
            server.heard.append(heard)
            handle(heard, connection)

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield server
    finally:
        server.stopping.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join(5)


def begin_stream(connection: Connection, **headers: str) -> None:
    """The head of an answer that ends with its connection."""
    lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    connection.sendall("\r\n".join([*lines, "", ""]).encode())


def send_event(connection: Connection, data: str, **fields: str) -> None:
    lines = [f"{name}: {value}" for name, value in fields.items()]
    connection.sendall("\n".join([*lines, f"data: {data}", "", ""]).encode())


def send_json(
    connection: Connection, body: bytes, status: str = "200 OK", content_type: str = "application/json"
) -> None:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
