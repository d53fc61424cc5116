from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from google.adk.agents import LlmAgent
from google.adk.cli.service_registry import get_service_registry, load_services_module
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai.types import Content, FunctionCall, Part

from flotilla_client import AsyncFlotilla, Flotilla
from flotilla_client.adk import FlotillaMemoryService

APP: dict[str, Any] = {"app_name": "harbour", "user_id": "ada"}


@pytest.fixture
def collection() -> str:
    return f"adk-{uuid4().hex[:8]}"


@pytest.fixture
def service(fleet: Flotilla, collection: str) -> FlotillaMemoryService:
    return FlotillaMemoryService(client=fleet, collection=collection)


def event(text: str, event_id: str = "", author: str = "user", **fields: Any) -> Event:
    return Event(id=event_id, author=author, content=Content(role="user", parts=[Part(text=text)]), **fields)


async def texts(service: BaseMemoryService, query: str = "harbour", **scope: Any) -> list[str]:
    found = await service.search_memory(query=query, **{**APP, **scope})
    return sorted((memory.content.parts or [Part()])[0].text or "" for memory in found.memories)


async def test_a_session_is_remembered_and_found_by_meaning(service: FlotillaMemoryService) -> None:
    said = [event("The ferry leaves at nine", timestamp=1e9), event("The lighthouse is repaired", author="harbour")]
    await service.add_session_to_memory(Session(id="s1", events=said, **APP))
    found = (await service.search_memory(query="When does the boat depart?", **APP)).memories
    assert found[0].content.parts == [Part(text="The ferry leaves at nine")]
    assert (found[0].author, found[0].timestamp, found[0].id) == ("user", "2001-09-09T01:46:40+00:00", said[0].id)
    assert found[0].content.role == "user"
    assert found[1].author == "harbour"


async def test_users_and_apps_never_see_each_others_memories(service: FlotillaMemoryService) -> None:
    # Joined without care, some of these would be the same names.
    scopes = [
        ("a", "b/c"),
        ("a/b", "c"),
        ("a", "b"),
        ("a'b", 'c"'),
        ("A", "b"),
        ("a", " b"),
        ("", ""),
        ("a.b", "c"),
        ("ä", "b"),
    ]
    for app_name, user_id in scopes:
        said = [event(f"secret of {app_name}, {user_id}", event_id="e1")]
        await service.add_session_to_memory(Session(id="s", app_name=app_name, user_id=user_id, events=said))
    for app_name, user_id in scopes:
        names: dict[str, Any] = {"app_name": app_name, "user_id": user_id}
        assert await texts(service, "secret", **names) == [f"secret of {app_name}, {user_id}"]
    await service.delete_memory(app_name="a", user_id="b", memory_id="e1")
    for app_name, user_id in scopes:
        left = await texts(service, "secret", app_name=app_name, user_id=user_id)
        assert len(left) == (0 if (app_name, user_id) == ("a", "b") else 1)


async def test_a_session_added_again_changes_nothing_and_adds_the_new(
    fleet: Flotilla, service: FlotillaMemoryService, collection: str
) -> None:
    said = [event("Fog until noon"), event("Clear at one")]
    session = Session(id="s1", events=said, **APP)
    await service.add_session_to_memory(session)
    await service.add_session_to_memory(session)
    before = {point.id: point for point in fleet.memory.scroll(collection)}
    session.events.append(event("Rain at two"))
    await service.add_session_to_memory(session)
    assert await texts(service) == ["Clear at one", "Fog until noon", "Rain at two"]
    assert len(before) == 2
    await service.add_events_to_memory(events=said[:1], session_id="s2", **APP)
    assert len(await texts(service)) == 4


async def test_a_deleted_memory_does_not_come_back_with_its_session(
    fleet: Flotilla, service: FlotillaMemoryService, collection: str
) -> None:
    session = Session(id="s1", events=[event("My pin is 4711", "pin"), event("Fog", "fog")], **APP)
    await service.add_session_to_memory(session)
    await service.delete_memory(memory_id="pin", **APP)
    await service.delete_memory(memory_id="unknown", **APP)
    await service.add_session_to_memory(session)
    assert await texts(service) == ["Fog"]
    assert not any("4711" in str(point.payload) for point in fleet.memory.scroll(collection))
    await service.add_memory(memories=[MemoryEntry(id="pin", content=Content(parts=[Part(text="A new pin")]))], **APP)
    assert await texts(service) == ["A new pin", "Fog"]
    with pytest.raises(ValueError, match="needs the memory_id"):
        await service.delete_memory(**APP)


async def test_only_texts_of_whole_events_are_kept(service: FlotillaMemoryService) -> None:
    thought = Content(
        role="model", parts=[Part(text="I wonder", thought=True), Part(text="It is nine"), Part(text="sharp")]
    )
    call = Content(role="model", parts=[Part(function_call=FunctionCall(name="f", args={}))])
    events = [
        Event(author="a", content=thought),
        Event(author="a", content=call),
        Event(author="a"),
        event("  \n"),
        event("It is", partial=True),
    ]
    await service.add_events_to_memory(events=events, **APP)
    assert await texts(service) == ["It is nine\nsharp"]
    await service.add_events_to_memory(events=[], **APP)


async def test_long_texts_are_several_memories_with_one_id(service: FlotillaMemoryService) -> None:
    long = "\n".join(f"Line {number} of the log of the ferry, \u0001 and é 漢" for number in range(1_500))
    said = event(long, "long")
    await service.add_events_to_memory(events=[said], session_id="s", **APP)
    pieces = (await service.search_memory(query="log of the ferry", **APP)).memories
    assert len(pieces) > 5
    assert {memory.id for memory in pieces} == {"long"}
    assert sum(len((memory.content.parts or [])[0].text or "") for memory in pieces) == len(long)
    await service.add_events_to_memory(events=[event("Short now", "long")], session_id="s", **APP)
    assert await texts(service) == ["Short now"]
    await service.delete_memory(memory_id="long", **APP)
    assert await texts(service) == []


async def test_memories_of_callers_keep_their_metadata_and_replace_their_former(service: FlotillaMemoryService) -> None:
    entry = MemoryEntry(
        id="m1",
        author="clerk",
        timestamp="yesterday",
        content=Content(role="user", parts=[Part(text="The crane is red")]),
        custom_metadata={"topic": "crane", "rank": 1},
    )
    await service.add_memory(memories=[entry], custom_metadata={"rank": 2, "by": "test"}, **APP)
    found = (await service.search_memory(query="crane", **APP)).memories
    assert found == [entry.model_copy(update={"custom_metadata": {"rank": 1, "topic": "crane", "by": "test"}})]
    changed = entry.model_copy(update={"content": Content(parts=[Part(text="The crane is blue")])})
    await service.add_memory(memories=[changed, MemoryEntry(content=Content(parts=[Part(text="No id")]))], **APP)
    assert await texts(service) == ["No id", "The crane is blue"]
    with pytest.raises(ValueError, match="'m2' has no text"):
        await service.add_memory(memories=[MemoryEntry(id="m2", content=Content())], **APP)


@pytest.mark.parametrize("ttl", [3600, "3600s", timedelta(hours=1)])
async def test_a_ttl_is_an_expiry(
    fleet: Flotilla, service: FlotillaMemoryService, collection: str, ttl: object
) -> None:
    await service.add_events_to_memory(events=[event("Fog", "e")], custom_metadata={"ttl": ttl}, **APP)
    (point,) = fleet.memory.scroll(collection)
    assert point.expires_at is not None
    left = datetime.fromisoformat(point.expires_at) - datetime.now(UTC)
    assert timedelta(minutes=58) < left < timedelta(minutes=61)
    await service.add_events_to_memory(events=[event("Fog", "e")], **APP)
    assert [point.expires_at for point in fleet.memory.scroll(collection)] == [None]
    with pytest.raises(ValueError, match="ttl is no number"):
        await service.add_events_to_memory(events=[event("Fog")], custom_metadata={"ttl": "soon"}, **APP)


async def test_searches_are_bounded(fleet: Flotilla, collection: str) -> None:
    service = FlotillaMemoryService(client=fleet, collection=collection, limit=3)
    await service.add_events_to_memory(events=[event(f"Ferry {number}") for number in range(5)], **APP)
    assert len(await texts(service, "ferry")) == 3
    assert await texts(service, "  ") == []
    assert len(await texts(service, "ferry " * 10_000)) == 3
    strict = FlotillaMemoryService(client=fleet, collection=collection, min_score=0.9)
    assert await texts(strict, "weather") == []


async def test_an_asyncio_client(async_fleet: AsyncFlotilla, collection: str) -> None:
    service = FlotillaMemoryService(client=async_fleet, collection=collection)
    batches = [service.add_events_to_memory(events=[event(f"Ferry {n}")], **APP) for n in range(5)]
    await asyncio.gather(*batches)
    assert len(await texts(service)) == 5


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Path]:
    """A folder of agents with the services.yaml of the documentation."""
    page = (Path(__file__).parents[3] / "docs" / "python-adk.md").read_text()
    (tmp_path / "services.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    yield tmp_path
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


async def test_the_service_registry_makes_it_from_a_uri(agents: Path, collection: str) -> None:
    load_services_module(str(agents))
    uri = f"flotilla://?collection={collection}&limit=2&min_score=0.1&agent_id=rover"
    service = get_service_registry().create_memory_service(uri, agents_dir=str(agents))
    assert isinstance(service, FlotillaMemoryService)
    assert (service.collection, service.limit, service.min_score) == (collection, 2, 0.1)
    await service.add_events_to_memory(events=[event("The ferry leaves at nine")], **APP)
    assert await texts(service, "ferry") == ["The ferry leaves at nine"]
    assert isinstance(service.client, Flotilla)
    service.client.close()


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("flotilla://127.0.0.1:8080/?collection=x", "FLOTILLA_VECTOR_URL"),
        ("flotilla:///x", "FLOTILLA_VECTOR_URL"),
        ("other://?collection=x", "flotilla://"),
        ("flotilla://?colection=x", "colection=x"),
        ("flotilla://?collection=", "each with a value"),
        ("flotilla://?limit=many", "limit is no number"),
        ("flotilla://?limit=0", "1 to 1,000"),
        ("flotilla://?min_score=high", "min_score is no number"),
    ],
)
def test_a_uri_that_is_not_understood_is_refused(uri: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        FlotillaMemoryService(uri)


class Echo(BaseLlm):
    """A model that repeats the memories which ADK put into its question."""

    model: str = "echo"

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        yield LlmResponse(content=Content(role="model", parts=[Part(text=str(llm_request.contents))]))


async def test_an_agent_recalls_an_earlier_session(service: FlotillaMemoryService) -> None:
    sessions = InMemorySessionService()
    agent = LlmAgent(name="clerk", model=Echo(), tools=[PreloadMemoryTool()])
    runner = Runner(app_name="harbour", agent=agent, session_service=sessions, memory_service=service)

    async def say(session_id: str, text: str) -> str:
        content = Content(role="user", parts=[Part(text=text)])
        events = [one async for one in runner.run_async(user_id="ada", session_id=session_id, new_message=content)]
        return str(events[-1].content)

    for session_id in ("first", "second"):
        await sessions.create_session(app_name="harbour", user_id="ada", session_id=session_id)
    await say("first", "The ferry leaves at nine")
    first = await sessions.get_session(app_name="harbour", user_id="ada", session_id="first")
    assert first is not None
    await service.add_session_to_memory(first)
    assert "The ferry leaves at nine" in await say("second", "When does the boat depart?")


AGENT = """
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai.types import Content, Part


class Echo(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=Content(role="model", parts=[Part(text=str(llm_request.contents))]))


root_agent = LlmAgent(name="clerk", model=Echo(model="echo"), tools=[PreloadMemoryTool()])
"""


def test_adks_own_server_makes_it_from_its_option(agents: Path, collection: str) -> None:
    (agents / "clerk").mkdir()
    (agents / "clerk" / "__init__.py").write_text("from . import agent\n")
    (agents / "clerk" / "agent.py").write_text(AGENT)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    uri = f"flotilla://?collection={collection}"
    command = [sys.executable, "-m", "google.adk.cli", "api_server", f"--port={port}", f"--memory_service_uri={uri}"]
    with subprocess.Popen([*command, agents], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                assert "leaves at nine" in _second_session(http)
        finally:
            server.terminate()


def _second_session(http: httpx2.Client) -> str:
    """What the agent says in a second session, when the first is in its memory."""
    for _ in range(300):
        try:
            http.get("/list-apps")
            break
        except httpx2.ConnectError:
            time.sleep(0.2)

    def say(session_id: str, text: str) -> str:
        http.post(f"/apps/clerk/users/ada/sessions/{session_id}", json={}).raise_for_status()
        message = {"role": "user", "parts": [{"text": text}]}
        names = {"appName": "clerk", "userId": "ada", "sessionId": session_id}
        return http.post("/run", json={**names, "newMessage": message}).raise_for_status().text

    say("one", "The ferry leaves at nine")
    http.patch("/apps/clerk/users/ada/memory", json={"session_id": "one"}).raise_for_status()
    return say("two", "When does the boat depart?")
