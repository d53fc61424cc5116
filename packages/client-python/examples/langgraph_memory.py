"""A LangGraph agent that remembers across conversations; the platform embeds, so no model and no key is needed."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore

from flotilla_client import Flotilla
from flotilla_client.langgraph import FlotillaStore


class State(TypedDict, total=False):
    """One turn of a conversation."""

    user: str
    said: str
    answer: str


def agent(state: State, *, store: BaseStore) -> State:
    """Keeps the message as a memory; where a model would answer, it repeats the memory that fits best."""
    memories = ("memories", state["user"])
    found = store.search(memories, query=state["said"], limit=1)
    store.put(memories, state["said"], {"text": state["said"], "words": len(state["said"].split())}, ttl=60 * 24 * 30)
    return {"answer": found[0].value["text"] if found else "I do not know you yet"}


with Flotilla() as fleet:
    store = FlotillaStore(client=fleet, collection="agent-memories")
    builder = StateGraph(State)
    builder.add_node("agent", agent)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    graph = builder.compile(store=store)
    for said in ("I live near the lighthouse", "I never eat fish", "What should I have for dinner?"):
        print(graph.invoke({"user": "mia", "said": said})["answer"])

    print([item.key for item in store.search(("memories",), filter={"words": {"$gte": 5}})])
    print(store.list_namespaces(prefix=("memories",)))
    for item in store.search(("memories", "mia"), limit=100):
        store.delete(item.namespace, item.key)
