"""A memory service for agents of Google's ADK: what one session learned, a later one finds."""

import asyncio

from google.adk.events.event import Event
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai.types import Content, Part

from flotilla_client import Flotilla
from flotilla_client.adk import FlotillaMemoryService


async def main(fleet: Flotilla) -> None:
    """What a Runner does with memory_service=memory, without a model."""
    memory = FlotillaMemoryService(client=fleet, collection="harbour-memory")
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="harbour", user_id="ada", session_id="monday")
    said = Content(role="user", parts=[Part(text="The ferry leaves at nine")])
    await sessions.append_event(session, Event(author="user", content=said))
    await memory.add_session_to_memory(session)

    found = await memory.search_memory(app_name="harbour", user_id="ada", query="When does the boat depart?")
    for entry in found.memories:
        print(entry.author, entry.timestamp, *(part.text for part in entry.content.parts or []))
        await memory.delete_memory(app_name="harbour", user_id="ada", memory_id=entry.id)


with Flotilla() as fleet:
    asyncio.run(main(fleet))
