/** Typed messages into the event log: encoded, placed by their key, one append for each partition they touch. */

import type { EventLog, NewRecord } from '#engines/event-log/port.ts'
import { newEventId } from '#lib/event-id.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type { Topic } from '#topics/topic.ts'
import type { Codec, OutgoingMessage, Position, Publisher, PublishOptions, TopicPlace } from './messages.ts'

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
    const shares = await shareOut(topic, messages, place.partitions, options.partition)
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

  /** Encodes all before anything is appended. */
  async function shareOut<K>(
    topic: Topic<K>,
    messages: OutgoingMessage<K, never>[],
    partitions: number,
    fixed: number | undefined,
  ): Promise<Map<number, Share>> {
    const occurredAt = new Date().toISOString()
    const shares = new Map<number, Share>()
    /** Many messages of a publish have one key: its bytes and its place are found once. */
    const routes = new Map<string, { key: Buffer; share: Share }>()
    for (let index = 0; index < messages.length; index++) {
      const message = messages[index]!
      const text = topic.key(message.key)
      let route = routes.get(text)
      if (!route) {
        const key = Buffer.from(text, 'utf8')
        const partition = fixed ?? partitionOf(key, partitions)
        const share = shares.get(partition) ?? { records: [], indexes: [] }
        shares.set(partition, share)
        route = { key, share }
        routes.set(text, route)
      }
      const encoded = message.value === null ? null : codec.encode(topic as never, message.value)
      // Synchronous once the topic is known: a needless await would cost a turn for each message.
      const value = encoded instanceof Promise ? await encoded : encoded
      const headers = headersOf(message.eventId ?? newEventId(), occurredAt, message.headers)
      route.share.records.push({ key: route.key, value, headers })
      route.share.indexes.push(index)
    }
    return shares
  }

  /** The event id stands first: whoever looks for it alone need not read on. No further header takes its place. */
  function headersOf(eventId: string, occurredAt: string, further: Record<string, string> | undefined) {
    // By their names: an object of computed ones is made several times slower.
    const own = { 'event-id': eventId, producer: producerName, 'occurred-at': occurredAt }
    return further === undefined ? own : { ...own, ...further, 'event-id': eventId }
  }

  return {
    publish: publish as Publisher['publish'],
    partitions: (topic) => placeOf(topic).partitions,
    placeOf,
  }
}
