"""CrewAI's memory in a collection of the platform, with the platform's own embedder."""

from crewai.memory.unified_memory import Memory

from flotilla_client import Flotilla
from flotilla_client.crewai import FlotillaEmbedder, FlotillaStorage

with Flotilla() as fleet:
    # A crew takes it as memory=memory. With scope, categories and importance given, no language model is asked.
    memory = Memory(
        storage=FlotillaStorage(client=fleet, collection="harbour-crew"),
        embedder=FlotillaEmbedder(client=fleet),
        consolidation_threshold=1.0,
    )
    for text, topic in (("The ferry leaves at nine", "timetable"), ("The lighthouse is repaired", "works")):
        memory.remember(text, scope="/harbour", categories=[topic], importance=0.5)

    for match in memory.recall("When does the boat depart?", scope="/harbour", limit=1, depth="shallow"):
        print(f"{match.score:.2f} {match.record.content}")
    print(memory.list_categories("/harbour"))

    memory.reset(scope="/harbour")
    memory.close()
