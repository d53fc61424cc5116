"""Servers that hang, drip, are away or answer by a proxy; and clients that are closed meanwhile. Over real sockets."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from raw_server import Connection, Heard, raw_server, send_json

from flotilla_client import AsyncFlotilla, Flotilla, FlotillaError, NoAnswer, NoAnswerInTime

COUNT = b'{"collection":"posts","count":3}'


def hangs(_: Heard, connection: Connection) -> None:
    """Takes the request and is silent until its client hangs up."""
    connection.settimeout(10)
    connection.recv(1)


def test_a_server_that_hangs_is_given_up_after_the_time_limit() -> None:
    with raw_server(hangs) as server:
        fleet = Flotilla(vector_url=server.url, api_key="k", timeout=0.3, attempts_max=2)
        begun = time.monotonic()
        with fleet, pytest.raises(NoAnswerInTime) as raised:
            fleet.memory.count("posts")
    assert 0.6 <= time.monotonic() - begun < 4
    assert (raised.value.code, raised.value.attempts, len(server.heard)) == ("timeout", 2, 2)
    assert server.url.removeprefix("http://") in str(raised.value)


async def test_a_server_that_hangs_is_given_up_by_tasks_too() -> None:
    with raw_server(hangs) as server:
        async with AsyncFlotilla(vector_url=server.url, api_key="k", timeout=0.3, attempts_max=2) as fleet:
            with pytest.raises(NoAnswerInTime):
                await fleet.memory.count("posts")
    assert len(server.heard) == 2


def drips(_: Heard, connection: Connection) -> None:
    """Sends a byte often enough that no single read is too long."""
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
    for _second in range(200):
        connection.sendall(b" ")
        time.sleep(0.05)


def test_a_server_that_drips_is_given_up_too() -> None:
    with raw_server(drips) as server:
        begun = time.monotonic()
        with Flotilla(vector_url=server.url, api_key="k", timeout=0.5, attempts_max=1) as fleet:
            with pytest.raises(NoAnswerInTime):
                fleet.memory.count("posts")
    assert time.monotonic() - begun < 4


async def test_a_server_that_drips_is_given_up_by_tasks_too() -> None:
    with raw_server(drips) as server:
        async with AsyncFlotilla(vector_url=server.url, api_key="k", timeout=0.5, attempts_max=1) as fleet:
            with pytest.raises(NoAnswerInTime):
                await fleet.memory.count("posts")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_where_nobody_listens_the_fault_names_host_port_and_reason() -> None:
    port = free_port()
    url = f"http://user:secret@127.0.0.1:{port}"
    with Flotilla(vector_url=url, api_key="k", retry_for=0.2) as fleet, pytest.raises(NoAnswer) as raised:
        fleet.memory.count("posts")
    assert f"127.0.0.1:{port}" in str(raised.value)
    assert "ECONNREFUSED" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_call_goes_on_once_the_platform_is_back() -> None:
    port = free_port()
    with Flotilla(vector_url=f"http://127.0.0.1:{port}", api_key="k") as fleet, ThreadPoolExecutor(1) as pool:
        counted = pool.submit(fleet.memory.count, "posts")
        time.sleep(0.7)
        with socket.create_server(("127.0.0.1", port)) as listener:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                send_json(connection, COUNT)
                assert counted.result(10) == 3


def test_the_page_of_a_proxy_is_waited_out() -> None:
    pages = [("502 Bad Gateway", b"<html>502</html>")] * 2

    def proxied(_: Heard, connection: Connection) -> None:
        if pages:
            status, page = pages.pop()
            send_json(connection, page, status, "text/html")
        else:
            send_json(connection, COUNT)

    with raw_server(proxied) as server, Flotilla(vector_url=server.url, api_key="k") as fleet:
        assert fleet.memory.count("posts") == 3
    assert len(server.heard) == 3


def cut_in_the_middle(_: Heard, connection: Connection) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")


def test_an_answer_that_breaks_off_is_none() -> None:
    with raw_server(cut_in_the_middle) as server:
        with Flotilla(vector_url=server.url, api_key="k", attempts_max=2) as fleet, pytest.raises(NoAnswer) as raised:
            fleet.memory.count("posts")
    assert (raised.value.code, len(server.heard)) == ("no_answer", 2)


def test_closing_ends_a_call_of_another_thread() -> None:
    with raw_server(hangs) as server, ThreadPoolExecutor(1) as pool:
        fleet = Flotilla(vector_url=server.url, api_key="k")
        counting = pool.submit(fleet.memory.count, "posts")
        while not server.heard:
            time.sleep(0.01)
        fleet.close()
        with pytest.raises(FlotillaError) as raised:
            counting.result(8)
        assert raised.value.code == "closed"
        with pytest.raises(FlotillaError, match="the client was closed"):
            fleet.memory.count("posts")


def test_closing_ends_a_wait_between_attempts() -> None:
    with ThreadPoolExecutor(1) as pool:
        fleet = Flotilla(vector_url=f"http://127.0.0.1:{free_port()}", api_key="k", retry_for=60)
        counting = pool.submit(fleet.memory.count, "posts")
        time.sleep(0.5)
        fleet.close()
        with pytest.raises(FlotillaError) as raised:
            counting.result(4)
    assert raised.value.code == "closed"


async def test_closing_ends_a_call_of_another_task() -> None:
    with raw_server(hangs) as server:
        fleet = AsyncFlotilla(vector_url=server.url, api_key="k")
        counting = asyncio.create_task(fleet.memory.count("posts"))
        while not server.heard:
            await asyncio.sleep(0.01)
        await fleet.close()
        with pytest.raises(FlotillaError) as raised:
            await asyncio.wait_for(counting, 8)
    assert raised.value.code == "closed"


async def test_a_task_that_is_canceled_is_canceled_and_its_client_goes_on() -> None:
    with raw_server(hangs) as server:
        async with AsyncFlotilla(vector_url=server.url, api_key="k", timeout=0.5, attempts_max=1) as fleet:
            counting = asyncio.create_task(fleet.memory.count("posts"))
            while not server.heard:
                await asyncio.sleep(0.01)
            counting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await counting
            with pytest.raises(NoAnswerInTime):
                await fleet.memory.count("posts")
