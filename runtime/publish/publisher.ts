/**
 * Publishes typed messages: encodes them, chooses partitions by their keys, appends once for each partition; for a worker
 * under a writer name of each partition that it reads.
 */

import type { Log, NewRecord } from '#engines/event-log/port.ts'
import { isFenced } from '#lib/errors.ts'
import { detach } from '#lib/giving-way.ts'
import { newEventId } from '#lib/ids.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Schemas } from '#schemas/types.ts'
import type { KeyedTopic, SchemaName, Topic } from '#topics/topic.ts'
import type {
  Codec,
  FencedPublisher,
  headerNames,
  MessageBatch,
  OutgoingMessage,
  Position,
  Publisher,
  PublishOptions,
  TopicLocation,
} from './messages.ts'

interface PublisherParts {
  eventLog: Log
  codec: Codec
  /** Where each topic lives, by name; read at every publish, so that it may be changed while running. */
  locations: ReadonlyMap<string, TopicLocation>
  /** Goes into the `producer` header. */
  producerName: string
}

type Append = Log['append']

/** The messages of one batch that go to one partition, with their positions in the caller's order. */
interface Share {
  records: NewRecord[]
  indexes: number[]
}

export function createPublisher(parts: PublisherParts): Publisher {
  const locationOf = (topic: Topic): TopicLocation => {
    const location = parts.locations.get(topic.name)
    if (!location) throw new Error(`${topic.name} has no known location: it is not in the catalogue`)
    return location
  }
  return {
    ...publishWith((...append) => parts.eventLog.append(...append), parts, locationOf),
    async fenced(name) {
      const writer = await parts.eventLog.fencedWriter(name)
      return { ...publishWith(writer.append, parts, locationOf), close: writer.close }
    },
    locationOf,
  }
}

/** What publishes through one way of appending. */
function publishWith(
  append: Append,
  parts: PublisherParts,
  locationOf: Publisher['locationOf'],
): Pick<Publisher, 'publish' | 'batch'> {
  function batch<K, S extends SchemaName>(topic: KeyedTopic<K, S>, partition?: number): EncodedBatch<K, S> {
    return new EncodedBatch(append, parts, topic, locationOf(topic), partition)
  }

  async function publish<K, S extends SchemaName>(
    topic: KeyedTopic<K, S>,
    messages: OutgoingMessage<K, Schemas[S]>[],
    options: PublishOptions = {},
  ): Promise<Position[]> {
    if (messages.length === 0) return []
    const whole = batch(topic, options.partition)
    for (const message of messages) {
      const late = whole.add(message)
      // An await without need would cost a turn of the event loop for each message.
      if (late) await late
    }
    return whole.publish(options)
  }

  return { publish, batch: (topic) => batch(topic) }
}

class EncodedBatch<K, S extends SchemaName> implements MessageBatch<K, Schemas[S]> {
  readonly #append: Append
  readonly #parts: PublisherParts
  readonly #topic: KeyedTopic<K, S>
  readonly #location: TopicLocation
  readonly #partition: number | undefined
  readonly #shares = new Map<number, Share>()
  /** Many messages of a batch have one key: its bytes and its partition are found once. */
  readonly #routes = new Map<string, { key: Buffer; share: Share }>()
  #size = 0

  constructor(
    append: Append,
    parts: PublisherParts,
    topic: KeyedTopic<K, S>,
    location: TopicLocation,
    partition: number | undefined,
  ) {
    this.#append = append
    this.#parts = parts
    this.#topic = topic
    this.#location = location
    this.#partition = partition
  }

  get size(): number {
    return this.#size
  }

  add(message: OutgoingMessage<K, Schemas[S]>): Promise<void> | undefined {
    if (message.value === null) return this.#take(message, null)
    const encoded = this.#parts.codec.encode(this.#topic, message.value)
    if (encoded instanceof Promise) return encoded.then((value) => this.#take(message, value))
    return this.#take(message, encoded)
  }

  async publish({ timeoutMs }: { timeoutMs?: number } = {}): Promise<Position[]> {
    const positions = new Array<Position>(this.#size)
    const options = timeoutMs === undefined ? {} : { timeoutMs }
    await Promise.all(
      [...this.#shares].map(async ([partition, { records, indexes }]) => {
        const first = await this.#append(this.#location.physicalName, partition, records, options)
        indexes.forEach((index, n) => {
          positions[index] = { partition, offset: first + n }
        })
      }),
    )
    // None before all are taken: what failed may be published again.
    for (const { records } of this.#shares.values()) for (const { value } of records) if (value) detach(value)
    return positions
  }

  #take(message: OutgoingMessage<K, Schemas[S]>, value: Buffer | null): undefined {
    const { key, share } = this.#routeOf(this.#topic.key(message.key))
    const headers = this.#headersOf(message.eventId ?? newEventId(), message.headers)
    share.records.push({ key, value, headers })
    share.indexes.push(this.#size++)
  }

  #routeOf(text: string): { key: Buffer; share: Share } {
    let route = this.#routes.get(text)
    if (!route) {
      const key = Buffer.from(text, 'utf8')
      const partition = this.#partition ?? partitionOf(key, this.#location.partitions)
      const share = this.#shares.get(partition) ?? { records: [], indexes: [] }
      this.#shares.set(partition, share)
      route = { key, share }
      this.#routes.set(text, route)
    }
    return route
  }

  /** The event id comes first, so that a reader who wants it alone can stop there. No further header replaces it. */
  #headersOf(eventId: string, further: Record<string, string> | undefined): StandardHeaders {
    // Literal names: an object with computed ones is made several times slower.
    const own = { 'event-id': eventId, producer: this.#parts.producerName, 'occurred-at': timeNow() }
    return further === undefined ? own : { ...own, ...further, 'event-id': eventId }
  }
}

/** The headers of every record, by the names of `headerNames`. */
type StandardHeaders = Record<(typeof headerNames)['eventId' | 'producer' | 'occurredAt'], string>

let lastTime = { ms: 0, text: '' }

/** ISO 8601; the text of a millisecond is made once. */
function timeNow(): string {
  const ms = Date.now()
  if (ms !== lastTime.ms) lastTime = { ms, text: new Date(ms).toISOString() }
  return lastTime.text
}

export interface PartitionWriters extends Closeable {
  /** Takes over the names of the partitions. Throws AppError `log_unavailable`: then call it again. */
  takeOver(gained: readonly { partition: number }[]): Promise<void>
  /**
   * The publisher of a partition whose name was taken over. A takeover may come late, from an instance that has lost the
   * partition meanwhile; so a publish that is refused as `fenced` takes the name back before it throws. Nothing more is
   * published before the runtime calls the handler again, which it does only while the group's heartbeats say that the
   * partition is still its own.
   */
  of(partition: number): Pick<Publisher, 'publish'>
}

/**
 * The writer names under which a worker publishes what it derives from a topic: one for each partition of that topic, so
 * that an instance that was paused for longer than its session, in the middle of a publish, puts no older state of a
 * record behind a newer one.
 *
 * - A name is taken over when its partition is gained, before the first publish. A late record of the former owner is
 *   refused in every partition where the new owner has published; elsewhere it lies before all that the new owner
 *   publishes.
 * - The new owner begins at the committed position, and a record is committed after what is derived from it was
 *   acknowledged. So whatever the former owner was publishing is of a record that the new owner handles again, with the
 *   same key and partition. No further fence has to be appended for that.
 *
 * `worker` is the beginning of the names.
 */
export function createPartitionWriters(
  publisher: Pick<Publisher, 'fenced'>,
  worker: string,
): PartitionWriters {
  const writers = new Map<number, FencedPublisher>()
  async function takeOverOne(partition: number): Promise<void> {
    const writer = await publisher.fenced(`${worker}-${partition}`)
    const former = writers.get(partition)
    writers.set(partition, writer)
    await former?.close()
  }
  return {
    async takeOver(gained) {
      await Promise.all(gained.map(({ partition }) => takeOverOne(partition)))
    },
    of(partition) {
      const writer = writers.get(partition)
      if (!writer) throw new Error(`the writer name of partition ${partition} was not taken over`)
      return {
        async publish(topic, messages, options) {
          try {
            return await writer.publish(topic, messages, options)
          } catch (error) {
            if (isFenced(error)) await takeOverOne(partition)
            throw error
          }
        },
      }
    },
    async close() {
      await Promise.all([...writers.values()].map((writer) => writer.close()))
    },
  }
}
