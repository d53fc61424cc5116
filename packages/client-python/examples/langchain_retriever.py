"""A LangChain retriever over a collection of the fleet; the platform embeds, so no model and no key is needed."""

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from flotilla_client import Flotilla
from flotilla_client.langchain import FlotillaVectorStore

LOG = [
    Document(id="log-1", page_content="The ferry to the island leaves at nine", metadata={"place": "quay", "day": 1}),
    Document(id="log-2", page_content="The lighthouse has a new lamp", metadata={"place": "cliff", "day": 2}),
    Document(
        id="log-3", page_content="Fog kept the ferry in the harbour until noon", metadata={"place": "quay", "day": 3}
    ),
]


def answer(documents: list[Document]) -> str:
    """Where a model would read the documents and answer."""
    return "; ".join(f"{document.page_content} ({document.metadata['place']})" for document in documents)


with Flotilla() as fleet:
    store = FlotillaVectorStore(client=fleet, collection="harbour-log")
    store.add_documents(LOG)
    at_the_quay = store.as_retriever(search_kwargs={"k": 1, "filter": {"place": "quay"}})
    chain = at_the_quay | RunnableLambda(answer)
    print(chain.invoke("When does the ferry leave?"))

    later = {"must": [{"key": "metadata.day", "range": {"gte": 2}}]}
    for document, score in store.similarity_search_with_score("Is the lamp repaired?", k=2, filter=later):
        print(f"{score:.2f} {document.id} {document.page_content}")
    store.delete(["log-3"])
    print([document.id for document in store.get_by_ids(["log-1", "log-2", "log-3"])])
