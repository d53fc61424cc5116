/** Typed messages into the event log: encoded, placed by their key, one append for each partition they touch. */

import type { EventLog, NewRecord } from '#engines/event-log/port.ts'
import { newEventId } from '#lib/event-id.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type { Topic } from '#topics/topic.ts'
import {
  type Codec,
  headerNames,
  type OutgoingMessage,
  type Position,
  type Publisher,
  type PublishOptions,
  type TopicPlace,
} from './messages.ts'

export interface PublisherParts {
  eventLog: EventLog
  codec: Codec
  /** Topic name → where it lives; read at every publish, so that it may be changed while running. */
  places: ReadonlyMap<string, TopicPlace>
  /** Goes into the `producer` header. */
  producerName: string
}

/** The messages of one publish that go to one partition, with their places in the caller's order. */
interface Share {
  records: NewRecord[]
  indexes: number[]
}

export function createPublisher(parts: PublisherParts): Publisher {
  const { eventLog, codec, producerName } = parts

  function placeOf(topic: Topic<never>): TopicPlace {
    const place = parts.places.get(topic.name)
    if (!place) throw new Error(`${topic.name} has no place: it is not in the catalogue`)
    return place
  }

  async function publish<K>(
    topic: Topic<K>,
    messages: OutgoingMessage<K, never>[],
    options: PublishOptions = {},
  ): Promise<Position[]> {
    if (messages.length === 0) return []
    const place = placeOf(topic as unknown as Topic<never>)
    const encoded = await encodeAll(topic, messages)
    const shares = shareOut(encoded, place.partitions, options.partition)
    const positions = new Array<Position>(messages.length)
    const appendOptions = options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }
    await Promise.all(
      [...shares].map(async ([partition, share]) => {
        const first = await eventLog.append(place.physicalName, partition, share.records, appendOptions)
        share.indexes.forEach((index, n) => {
          positions[index] = { partition, offset: first + n }
        })
      }),
    )
    return positions
  }

  async function encodeAll<K>(topic: Topic<K>, messages: OutgoingMessage<K, never>[]): Promise<NewRecord[]> {
    const occurredAt = new Date().toISOString()
    const records: NewRecord[] = []
    for (const message of messages) {
      const encoded = message.value === null ? null : codec.encode(topic as never, message.value)
      records.push({
        key: Buffer.from(topic.key(message.key), 'utf8'),
        // Synchronous once the topic is known: a needless await would cost a turn for each message.
        value: encoded instanceof Promise ? await encoded : encoded,
        headers: {
          [headerNames.producer]: producerName,
          [headerNames.occurredAt]: occurredAt,
          ...message.headers,
          [headerNames.eventId]: message.eventId ?? newEventId(),
        },
      })
    }
    return records
  }

  return {
    publish: publish as Publisher['publish'],
    partitions: (topic) => placeOf(topic).partitions,
    placeOf,
  }
}

function shareOut(records: NewRecord[], partitions: number, fixed: number | undefined): Map<number, Share> {
  const shares = new Map<number, Share>()
  records.forEach((record, index) => {
    const partition = fixed ?? partitionOf(record.key as Buffer, partitions)
    const share = shares.get(partition) ?? { records: [], indexes: [] }
    shares.set(partition, share)
    share.records.push(record)
    share.indexes.push(index)
  })
  return shares
}
