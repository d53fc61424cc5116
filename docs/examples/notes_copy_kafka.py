"""Keeps a copy of the hub's notes in a SQLite file, from Kafka, with confluent-kafka and its Avro deserializer.

    pip install 'confluent-kafka[avro,schemaregistry]'
    python3 notes_copy_kafka.py BROKERS REGISTRY_URL http://127.0.0.1:8081 notes.sqlite

It may be killed at any moment, and so may the platform: the positions are kept in the transaction of the notes.
    select note from notes where status = 'active'
"""

import json
import sqlite3
import sys
import time
import urllib.request

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

brokers, registry_url, base_url, copy_file = sys.argv[1:5]
deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry_url}))
copy = sqlite3.connect(copy_file)
copy.execute(
    "create table if not exists notes"
    " (id integer primary key, version integer not null, status text not null, note text not null)"
)
copy.execute("create table if not exists positions (partition integer primary key, next integer not null)")
copy.execute("create table if not exists epoch (one integer primary key check (one = 1), epoch integer not null)")


def where_it_lives():
    """The topic's present name, and its epoch: `topics grow` copies it under another name."""
    with urllib.request.urlopen(f"{base_url}/api/v1/asyncapi.json", timeout=10) as answer:
        channel = json.load(answer)["channels"]["hub.records"]
    return channel["address"], channel["x-epoch"]


def begin_again_in(epoch):
    known = copy.execute("select epoch from epoch").fetchone()
    if known and known[0] == epoch:
        return
    with copy:  # Positions of another epoch mean nothing.
        copy.execute("delete from notes")
        copy.execute("delete from positions")
        copy.execute("insert or replace into epoch values (1, ?)", (epoch,))


def apply(topic, messages):
    with copy:  # One transaction: all of it, or nothing.
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            position = (message.partition(), message.offset() + 1)
            copy.execute("insert or replace into positions values (?, ?)", position)
            if any(name == "flotilla-fence" for name, _ in message.headers() or []):
                continue
            kind, number = message.key().decode().split("/")
            note = deserialize(message.value(), SerializationContext(topic, MessageField.VALUE))
            if kind != "note":
                continue
            if note is None:
                copy.execute("delete from notes where id = ?", (int(number),))
                continue
            copy.execute(
                "insert into notes values (?, ?, ?, ?) on conflict (id) do update set"
                " version = excluded.version, status = excluded.status, note = excluded.note"
                " where excluded.version >= notes.version",  # A record may come again behind a newer one.
                (note["id"], note["version"], note["status"], json.dumps(note, default=str)),
            )


def follow(topic, epoch):
    """Reads until the topic lives elsewhere."""
    settings = {"bootstrap.servers": brokers, "group.id": "notes-copy", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "error"})
    try:
        found = consumer.list_topics(topic, timeout=20).topics[topic]
        if found.error:
            raise KafkaException(found.error)
        known = dict(copy.execute("select partition, next from positions"))
        consumer.assign([TopicPartition(topic, one, known.get(one, OFFSET_BEGINNING)) for one in found.partitions])
        while True:
            messages = consumer.consume(500, timeout=5)
            apply(topic, messages)
            if not messages and where_it_lives() != (topic, epoch):
                return
    finally:
        consumer.close()


while True:
    try:
        name, epoch = where_it_lives()
        begin_again_in(epoch)
        follow(name, epoch)
    except (OSError, KafkaException) as error:  # The platform or the log is away.
        print(error, file=sys.stderr)
        time.sleep(1)
