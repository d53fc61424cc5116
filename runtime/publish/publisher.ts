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
  function batch<K, S extends SchemaName>(topic: KeyedTopic<K, S>, partition?: number) {
    return createBatch(append, parts, topic, locationOf(topic), partition)
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

/** Messages of one topic, encoded as they are added; all go to `partition` where one is given. */
function createBatch<K, S extends SchemaName>(
  append: Append,
  { codec, producerName }: PublisherParts,
  topic: KeyedTopic<K, S>,
  location: TopicLocation,
  partition: number | undefined,
): MessageBatch<K, Schemas[S]> {
  const shares = new Map<number, Share>()
  /** Many messages of a batch have one key: its bytes and its partition are found once. */
  const routes = new Map<string, { key: Buffer; share: Share }>()
  const memory = createMemory()
  let size = 0

  function routeOf(text: string): { key: Buffer; share: Share } {
    let route = routes.get(text)
    if (!route) {
      const key = Buffer.from(text, 'utf8')
      const to = partition ?? partitionOf(key, location.partitions)
      const share = shares.get(to) ?? { records: [], indexes: [] }
      shares.set(to, share)
      route = { key, share }
      routes.set(text, route)
    }
    return route
  }
  /** The event id comes first, so that a reader who wants it alone can stop there. No further header replaces it. */
  function headersOf(eventId: string, further: Record<string, string> | undefined): StandardHeaders {
    // Literal names: an object with computed ones is made several times slower.
    const own = { 'event-id': eventId, producer: producerName, 'occurred-at': timeNow() }
    return further === undefined ? own : { ...own, ...further, 'event-id': eventId }
  }
  function take(message: OutgoingMessage<K, Schemas[S]>, value: Buffer | null): undefined {
    const { key, share } = routeOf(topic.key(message.key))
    share.records.push({ key, value, headers: headersOf(message.eventId ?? newEventId(), message.headers) })
    share.indexes.push(size++)
  }
  return {
    get size() {
      return size
    },
    add(message) {
      if (message.value === null) return take(message, null)
      const encoded = codec.encode(topic, message.value, memory.take)
      if (encoded instanceof Promise) return encoded.then((value) => take(message, value))
      return take(message, encoded)
    },
    async publish(options = {}) {
      const positions = new Array<Position>(size)
      await Promise.all(
        [...shares].map(async ([to, { records, indexes }]) => {
          const first = await append(location.physicalName, to, records, options)
          indexes.forEach((index, n) => {
            positions[index] = { partition: to, offset: first + n }
          })
        }),
      )
      // None before all are taken: what failed may be published again.
      memory.giveBack()
      return positions
    },
  }
}

const pieceBytesMax = 1024 * 1024

/**
 * Memory for the large values of a batch: few pieces in place of one for each value, which costs more than the value itself. Each
 * is twice as large as all before.
 */
function createMemory() {
  const pieces: Buffer[] = []
  let used = 0
  let total = 0
  return {
    take(bytes: number): Buffer {
      let piece = pieces.at(-1)
      if (!piece || used + bytes > piece.length) {
        piece = Buffer.allocUnsafeSlow(Math.max(bytes, Math.min(2 * total, pieceBytesMax)))
        pieces.push(piece)
        total += piece.length
        used = 0
      }
      used += bytes
      return piece.subarray(used - bytes, used)
    },
    giveBack(): void {
      for (const piece of pieces) detach(piece)
    },
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
