/** A topic, a codec and a publisher for consumers under test, in any process: no registry, no test runner. */

import type { EventLog } from '#engines/event-log/port.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type {
  Codec,
  Message,
  OutgoingMessage,
  Position,
  Publisher,
  PublishOptions,
} from '#runtime/publish/messages.ts'
import type { AgentChange } from '#schemas/types.ts'
import { defineTopic, type KeyedTopic, type SchemaName } from '#topics/topic.ts'

export type Work = Message<AgentChange>

/** A topic of tests; its values are small JSON objects under the schema's name. */
export function testTopic(
  name: string,
  cleanup: 'delete' | 'compact' = 'delete',
): KeyedTopic<string, 'agent-change'> {
  return defineTopic({
    name,
    purpose: 'work of tests',
    keyedBy: 'lane',
    key: (lane: string) => lane,
    schema: 'agent-change',
    partitions: 1,
    cleanup,
    retentionMs: null,
    deadLetters: true,
    writers: ['tests'],
    readers: [{ service: 'tests', group: 'workers', mode: 'batch' }],
  })
}

/** JSON in place of Avro; `{"poison":true}` cannot be decoded. Buffers survive as base64. */
export const jsonCodec: Codec = {
  encode: (_topic, value) => Buffer.from(JSON.stringify(value, (_, one) => wrap(one))),
  decode(_topic, record) {
    const { partition, offset, timestamp, headers, key } = record
    const text = record.value?.toString() ?? 'null'
    if (text.includes('"poison":true')) throw new Error('these bytes are no message')
    const value = JSON.parse(text, (_, one) =>
      one?.$bytes === undefined ? one : Buffer.from(one.$bytes, 'base64'),
    )
    return { partition, offset, timestamp, headers, key: key?.toString() ?? '', value }
  },
}

function wrap(one: unknown): unknown {
  const bytes = one as { type?: string; data?: number[] } | null
  if (bytes?.type !== 'Buffer') return one
  return { $bytes: Buffer.from(bytes.data!).toString('base64') }
}

/** Publishes through the log, by key, with the event id that is given or a counted one. */
export function testPublisher(eventLog: EventLog, partitions: number): Publisher {
  let events = 0
  async function publish(
    topic: KeyedTopic<unknown, SchemaName>,
    messages: OutgoingMessage<unknown, never>[],
    options: PublishOptions = {},
  ): Promise<Position[]> {
    const made: Position[] = []
    for (const message of messages) {
      const key = Buffer.from(topic.key(message.key))
      const value =
        message.value === null ? null : ((await jsonCodec.encode(topic as never, message.value)) as Buffer)
      const headers = { 'event-id': message.eventId ?? `event-${events++}`, ...message.headers }
      const ownPartition = topic.name.endsWith('.dead-letters') ? 0 : partitionOf(key, partitions)
      const partition = options.partition ?? ownPartition
      made.push({
        partition,
        offset: await eventLog.append(topic.name, partition, [{ key, value, headers }]),
      })
    }
    return made
  }
  function batch(topic: KeyedTopic<unknown, SchemaName>) {
    const messages: OutgoingMessage<unknown, never>[] = []
    return {
      get size() {
        return messages.length
      },
      add: (message: OutgoingMessage<unknown, never>) => void messages.push(message),
      publish: () => publish(topic, messages),
    }
  }
  return {
    publish: publish as Publisher['publish'],
    batch: batch as unknown as Publisher['batch'],
    fenced: async () => ({
      publish: publish as Publisher['publish'],
      batch: batch as unknown as Publisher['batch'],
      close: async () => {},
    }),
    locationOf: (topic) => ({ physicalName: topic.name, epoch: 1, partitions }),
  }
}

/** As `testPublisher`, for topics whose names on the broker begin with a prefix: others use the broker, too. */
export function prefixedPublisher(eventLog: EventLog, partitions: number, prefix: string): Publisher {
  const base = testPublisher(eventLog, partitions)
  const prefixed = <T extends { name: string }>(topic: T): T => ({ ...topic, name: `${prefix}${topic.name}` })
  return {
    ...base,
    publish: ((topic: KeyedTopic<unknown, SchemaName>, messages: never, options?: PublishOptions) =>
      base.publish(prefixed(topic), messages, options)) as Publisher['publish'],
    locationOf: (topic) => base.locationOf(prefixed(topic)),
  }
}
