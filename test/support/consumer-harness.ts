/** Shared by consumer tests: a topic, messages that need no registry, and a started consumer that is always closed. */

import { Writable } from 'node:stream'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { onTestFinished } from 'vitest'
import type { EventLog, NewRecord, StoredRecord } from '#engines/event-log/port.ts'
import {
  type BatchOptions,
  type ConsumerDependencies,
  type LaneOptions,
  type RunningConsumer,
  startBatchConsumer,
  startLaneConsumer,
} from '#runtime/consume/consumer.ts'
import { deadLettersOf } from '#topics/dead-letters.ts'
import type { KeyedTopic } from '#topics/topic.ts'
import { jsonCodec, testPublisher, testTopic } from './consumer-wiring.ts'

export type { Work } from './consumer-wiring.ts'
export { testTopic } from './consumer-wiring.ts'

/** The handler, and the options that differ from the defaults. */
type Given<Options extends { handle: unknown }> = Partial<Options> & Pick<Options, 'handle'>

export interface Harness extends ConsumerDependencies {
  eventLog: EventLog
  topic: KeyedTopic<string, 'agent-change'>
  /** Lines of the log, parsed. */
  lines: Record<string, unknown>[]
  /** Appends to one partition; `id` defaults to a counted event id. */
  add(partition: number, entries: { key?: string; value?: unknown; id?: string }[]): Promise<void>
  startBatches(options: Given<BatchOptions<'agent-change'>>): Promise<RunningConsumer>
  startLanes(options: Given<LaneOptions<'agent-change'>>): Promise<RunningConsumer>
  /** Values of the dead letters that are there now, by key. */
  deadLetters(): Promise<Map<string, Record<string, unknown>>>
}

export interface HarnessOptions {
  topic?: KeyedTopic<string, 'agent-change'>
  partitions?: number
  /** Leaves out the initial positions of the group `workers`. */
  uninitialised?: boolean
}

let topics = 0

/** Creates the topic with its dead letters and initial positions. */
export async function createHarness(eventLog: EventLog, options: HarnessOptions = {}): Promise<Harness> {
  const { partitions = 1 } = options
  const topic = options.topic ?? testTopic(`work-${process.pid}-${Date.now()}-${topics++}`)
  const lines: Record<string, unknown>[] = []
  await createTopics(eventLog, topic, partitions)
  if (!options.uninitialised) {
    const positions = Array.from({ length: partitions }, (_, partition) => ({ partition, offset: 0 }))
    await eventLog.setPositions('workers', topic.name, positions)
  }
  const dependencies = {
    eventLog,
    codec: jsonCodec,
    publisher: testPublisher(eventLog, partitions),
    log: pino({ level: 'debug' }, collector(lines)),
    metrics: new Registry(),
  }
  let events = 0
  function closing<C extends RunningConsumer>(consumer: C): C {
    onTestFinished(() => consumer.close())
    return consumer
  }
  return {
    ...dependencies,
    topic,
    lines,
    async add(partition, entries) {
      const records = entries.map(({ key = 'k', value = {}, id }): NewRecord => {
        return {
          key: Buffer.from(key),
          value: Buffer.from(JSON.stringify(value)),
          headers: { 'event-id': id ?? `work-${events++}` },
        }
      })
      // Only ends a hang: a busy machine may take long to write.
      await eventLog.append(topic.name, partition, records, { timeoutMs: 60_000 })
    },
    startBatches: async (given) =>
      closing(await startBatchConsumer(dependencies, { ...defaults(topic), ...batchDefaults, ...given })),
    startLanes: async (given) =>
      closing(await startLaneConsumer(dependencies, { ...defaults(topic), concurrency: 8, ...given })),
    deadLetters: () => readDeadLetters(eventLog, topic),
  }
}

const batchDefaults = { batchRecordsMax: 100, batchBytesMax: 1_000_000 }

function defaults(topic: KeyedTopic<string, 'agent-change'>) {
  return { group: 'workers', topic, callTimeoutMs: 2_000, retriesMax: 2, backoff: { baseMs: 1, maxMs: 5 } }
}

async function createTopics(
  eventLog: EventLog,
  topic: KeyedTopic<string, 'agent-change'>,
  partitions: number,
) {
  const spec = {
    name: topic.name,
    partitions,
    cleanup: topic.cleanup,
    retentionMs: null,
    tombstoneRetentionMs: 86_400_000,
    segmentBytes: 64 * 1024 * 1024,
    segmentMs: 600_000,
    recordBytesMax: 1024 * 1024,
  }
  await eventLog.createTopic(spec)
  const letters = deadLettersOf(topic)
  await eventLog.createTopic({ ...spec, name: letters.name, partitions: 1, cleanup: 'compact' })
}

async function readDeadLetters(eventLog: EventLog, topic: KeyedTopic<string, 'agent-change'>) {
  const found = new Map<string, Record<string, unknown>>()
  const keep = (record: StoredRecord) => {
    if (record.hidden) return
    const key = record.key!.toString()
    if (record.value === null) found.delete(key)
    else found.set(key, jsonCodec.decode(topic as never, record) as never as Record<string, unknown>)
  }
  const name = `${topic.name}.dead-letters`
  const tail = await eventLog.tail({ topic: name, from: 'beginning', records: (_, all) => all.forEach(keep) })
  await tail.ready
  await tail.close()
  return new Map([...found].map(([key, message]) => [key, message.value as Record<string, unknown>]))
}

function collector(lines: Record<string, unknown>[]): Writable {
  return new Writable({
    write(chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)))
      done()
    },
  })
}
