"""An index of LlamaIndex in a collection of the platform, with the platform's own embedder."""

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from flotilla_client import Flotilla
from flotilla_client.llamaindex import FlotillaEmbedding, FlotillaVectorStore

with Flotilla() as fleet:
    store = FlotillaVectorStore(client=fleet, collection="harbour-docs")
    index = VectorStoreIndex.from_vector_store(store, embed_model=FlotillaEmbedding(client=fleet))
    index.insert(Document(id_="timetable", text="The ferry leaves at nine", metadata={"year": 2026}))
    index.insert(Document(id_="works", text="The lighthouse is repaired", metadata={"year": 2025}))

    this_year = MetadataFilters(filters=[MetadataFilter(key="year", value=2026, operator=FilterOperator.GTE)])
    retriever = index.as_retriever(similarity_top_k=1, filters=this_year)
    for found in retriever.retrieve("When does the boat depart?"):
        print(f"{found.score:.2f} {found.text}")

    # Other agents read the same collection; this leaves nothing behind.
    for document in ("timetable", "works"):
        index.delete_ref_doc(document)
