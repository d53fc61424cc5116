"""Tantivy as the peer: JSON lines and queries in, the ids it finds for each query out (English stems; weights or none)."""

import json
import re
import sys

import tantivy

FIELDS = ["title", "slug", "path", "body"]
WEIGHTS = {"title": 4.0, "slug": 2.67, "path": 2.33, "body": 1.0}


def main(records_file, queries_file, weighted):
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    for field in FIELDS:
        builder.add_text_field(field, tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer(heap_size=100_000_000, num_threads=1)
    with open(records_file, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            texts = {field: record.get(field) or "" for field in FIELDS}
            writer.add_document(tantivy.Document(id=record["id"], **texts))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    found = []
    with open(queries_file, encoding="utf-8") as queries:
        for query in json.load(queries):
            plain = " ".join(re.findall(r"\w+", query.lower()))
            boosts = {"field_boosts": WEIGHTS} if weighted else {}
            parsed = index.parse_query(plain, FIELDS, **boosts)
            hits = searcher.search(parsed, 100).hits
            found.append([searcher.doc(address)["id"][0] for _, address in hits])
    json.dump(found, sys.stdout)


main(sys.argv[1], sys.argv[2], sys.argv[3] == "weighted")
