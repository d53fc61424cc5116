"""Reads topics with confluent-kafka and its Avro deserializer, and prints each record as a line of JSON.

Standard input holds {"brokers", "registry", "config", "topics": {topic: {partition: first offset}}}. A partition that is not
named is read from the beginning; every one to the end that it has now.
"""

import datetime
import json
import sys

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

given = json.load(sys.stdin)
deserialize = AvroDeserializer(SchemaRegistryClient({"url": given["registry"]}))
consumer = Consumer(
    {
        "bootstrap.servers": given["brokers"],
        "group.id": "reader-python",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        **given.get("config", {}),
    }
)


def plain(value):
    """JSON has no bytes and no times: hex, and milliseconds since 1970."""
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    return value


starts = []
for topic, positions in given["topics"].items():
    for partition in consumer.list_topics(topic, timeout=60).topics[topic].partitions:
        low, _high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
        starts.append(TopicPartition(topic, partition, positions.get(str(partition), low)))
consumer.assign(starts)
unread = len(starts)
while unread > 0:
    message = consumer.poll(90)
    if message is None:
        sys.exit("nothing came for 90 s")
    if message.error():
        if message.error().code() != KafkaError._PARTITION_EOF:
            sys.exit(str(message.error()))
        unread -= 1
        continue
    headers = {name: value.decode() for name, value in message.headers() or []}
    if "flotilla-fence" in headers:
        continue
    topic = message.topic()
    value = None
    if message.value() is not None:
        value = plain(deserialize(message.value(), SerializationContext(topic, MessageField.VALUE)))
    print(
        json.dumps(
            {
                "topic": topic,
                "partition": message.partition(),
                "offset": message.offset(),
                "key": message.key().decode(),
                "headers": headers,
                "value": value,
            }
        )
    )
consumer.close()
