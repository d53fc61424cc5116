/**
 * Each public topic, with real content, read by programs of others: confluent-kafka (Python), kafkajs, Kafka's console consumer with
 * the registry's deserializer (Java) and kcat (C, raw). From the beginning and from positions, through a rebuild and more
 * partitions they read what the platform's own reader reads.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { fenceRecord } from '#engines/event-log/kafka/partition-writer.ts'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import { openPostgres } from '#engines/relational/postgres.ts'
import { growTopic } from '#operations/grow.ts'
import { ensureTopics } from '#runtime/publish/topics.ts'
import { catalog } from '#topics/catalog.ts'
import { commonHeaders } from '#topics/promises.ts'
import type { Topic } from '#topics/topic.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'
import { silentLog } from '../support/relational.ts'
import { type FillingPlatform, openFillingPlatform } from '../support/topic-readers/fill.ts'
import {
  type Log,
  type ReadRecord,
  readAsPlatform,
  readWithJava,
  readWithKcat,
  readWithPython,
  runPage,
  type Starts,
} from '../support/topic-readers/readers.ts'

const publicTopics = catalog.filter((topic) => topic.public)

let servers: Stack
let platform: FillingPlatform
let log: Log
let env: Record<string, string>
/** The records of the platform's own reader after the first round. */
let read: Awaited<ReturnType<typeof readAsPlatform>>
beforeAll(async () => {
  servers = await openStack()
  env = await servers.newEnvironment()
  log = { brokers: servers.brokers, registry: env.SCHEMA_REGISTRY_URL! }
  platform = await openFillingPlatform(env)
  await platform.fill('first')
  // No group reads this one: what it had left to read would stop the topic's growth.
  await appendFence('webhooks.attempts')
  read = await readAsPlatform(log, named())
})
afterAll(async () => {
  await platform?.close()
  await servers?.close()
})

/** As the driver writes it behind a batch that it gave up: nobody may take it for a record. */
async function appendFence(topic: string): Promise<void> {
  const eventLog = await openKafkaLog({ brokers: log.brokers, clientId: 'fence', log: silentLog })
  await eventLog.append(topic, 0, [fenceRecord()])
  await eventLog.close()
}
const fences = 1

const named = (names: Record<string, string> = {}): Map<string, Topic> =>
  new Map(publicTopics.map((topic) => [names[topic.name] ?? topic.name, topic]))

function sorted<R extends Omit<ReadRecord, 'topic'>>(records: R[]): R[] {
  const placeOf = (record: R) => `${'topic' in record ? record.topic : ''} ${record.headers['event-id']}`
  return records.toSorted(
    (a, b) => placeOf(a).localeCompare(placeOf(b)) || a.partition - b.partition || a.offset - b.offset,
  )
}

/** The middle of what each partition holds. */
function middles(records: ReadRecord[]): Starts {
  const starts: Starts = {}
  for (const [topic, ofTopic] of Map.groupBy(records, (record) => record.topic)) {
    starts[topic] = {}
    for (const [partition, list] of Map.groupBy(ofTopic, (record) => record.partition)) {
      starts[topic][partition] = list[Math.floor(list.length / 2)]!.offset
    }
  }
  return starts
}

/** The positions behind the records: where a reader of all of them goes on. */
function endsOf(records: ReadRecord[]): Starts {
  const starts: Starts = {}
  for (const { topic, partition, offset } of records) {
    const ofTopic = starts[topic] ?? {}
    starts[topic] = ofTopic
    ofTopic[partition] = Math.max(ofTopic[partition] ?? 0, offset + 1)
  }
  return starts
}

const everyStart = (topics: Iterable<string>): Starts =>
  Object.fromEntries([...topics].map((topic) => [topic, {}]))

/** Without topics, and with bytes and times as Avro's JSON for Java shows them. */
function asJava(records: ReadRecord[]): Omit<ReadRecord, 'topic'>[] {
  return records.map(({ topic: _, ...record }) => {
    const { vector, ...value } = (record.value ?? {}) as { vector?: string }
    if (vector === undefined) return record
    return { ...record, value: { vector: Buffer.from(vector, 'hex').toString('latin1'), ...value } }
  })
}

/** Does what `flotilla topics grow` does, for all public topics; returns where each is then. */
async function growAll(): Promise<Record<string, string>> {
  const names: Record<string, string> = {}
  const eventLog = await openKafkaLog({ brokers: log.brokers, clientId: 'grow', log: silentLog })
  const relational = await openPostgres({ url: env.DATABASE_URL!, log: silentLog })
  try {
    const locations = await ensureTopics({ eventLog, relational, log: silentLog })
    const { signal } = new AbortController()
    const parts = { env: {}, engines: { eventLog, relational }, locations, progress() {}, signal }
    for (const topic of publicTopics) {
      names[topic.name] = (await growTopic(parts, topic, 24)).physicalName
    }
  } finally {
    await Promise.all([eventLog.close(), relational.close()])
  }
  return names
}

test('every public topic has content, with the headers that the catalogue names', async () => {
  const { decoded } = read
  for (const topic of publicTopics) {
    const records = decoded.filter((record) => record.topic === topic.name)
    expect(records.length, topic.name).toBeGreaterThan(0)
    const names = new Set(records.flatMap(({ headers }) => Object.keys(headers)))
    // No dead letter was put back here.
    const { 'replayed-from': _, ...own } = topic.public!.headers
    expect([...names].sort(), topic.name).toEqual([...commonHeaders, ...Object.keys(own)].sort())
    for (const { headers } of records)
      expect(Object.keys(headers)).toEqual(expect.arrayContaining([...commonHeaders]))
  }
})

// Next to each other: a program starts up, or waits for a record that never comes, most of its time.
test.concurrent('confluent-kafka reads every topic from the beginning, and from positions', async () => {
  const { decoded } = read
  const starts = middles(decoded)
  const [all, some] = await Promise.all(
    [everyStart(named().keys()), starts].map((begin) => readWithPython(log, begin)),
  )
  expect(sorted(all!)).toEqual(sorted(decoded))
  const rest = decoded.filter(({ topic, partition, offset }) => offset >= starts[topic]![partition]!)
  expect(sorted(some!)).toEqual(sorted(rest))
})

test.concurrent('the console consumer of Java reads every topic from the beginning, and from a position', async () => {
  const { decoded } = read
  const all = await readWithJava(log, { topics: [...named().keys()] }, decoded.length + fences)
  expect(sorted(all)).toEqual(sorted(asJava(decoded)))
  const [{ partition, offset }] = decoded.filter(({ topic }) => topic === 'hub.records').slice(-1) as [
    ReadRecord,
  ]
  const place = { topic: 'hub.records', partition, offset }
  const last = asJava(decoded.filter((one) => one.topic === place.topic && one.partition === partition))
  expect(await readWithJava(log, place, 1)).toEqual(last.filter((one) => one.offset === offset))
})

test.concurrent('kcat reads the bytes of every topic from the beginning, and from positions', async () => {
  const { raw } = read
  expect(sorted(await readWithKcat(log, [...named().keys()]))).toEqual(sorted(raw))
  const starts = middles(raw.filter(({ topic }) => topic === 'fleet.events' || topic === 'hub.records'))
  const rest = raw.filter(
    ({ topic, partition, offset }) => offset >= (starts[topic]?.[partition] ?? Number.NaN),
  )
  expect(sorted(await readWithKcat(log, Object.keys(starts), starts))).toEqual(sorted(rest))
})

test.concurrent('the programs of docs/reading-topics.md do what it says', async () => {
  const { decoded } = read
  const ofHub = decoded.filter(({ topic }) => topic === 'hub.records')
  const [shown, printed, listed] = await Promise.all([
    runPage(log, 'sh', 'kcat'),
    runPage(log, 'python', 'Consumer('),
    runPage(log, 'ts', 'kafkajs'),
  ])
  expect(shown.split('\n').filter(Boolean)).toHaveLength(ofHub.length)
  const active = [2, 3, 4, 5, 6, 7].map((n) => `'Note ${n} of first'`)
  // The goal is not active yet; one note is resolved, one archived.
  expect(printed.trim()).toBe(`[${active.join(', ')}]`)
  expect(listed.replaceAll(/\s+/g, ' ').trim()).toBe(`[ ${active.join(', ')} ]`)
})

test('through a rebuild and more partitions they go on: in place from their positions, in a new epoch from the beginning', {
  timeout: 300_000,
}, async () => {
  const before = read.decoded
  const names = await growAll()
  expect(names).toEqual({
    ...Object.fromEntries(publicTopics.map(({ name }) => [name, name])),
    'hub.records': 'hub.records.e2',
    'vectors.collections': 'vectors.collections.e2',
    'vectors.commands': 'vectors.commands.e2',
  })
  await platform.fill('second', async ({ command }) => {
    await command('rebuild', 'notes')
    await command('rebuild', 'vectors')
  })
  const starts = { ...everyStart(named(names).keys()), ...endsOf(before) }
  for (const topic of ['hub.records', 'vectors.collections', 'vectors.commands']) delete starts[topic]
  const { decoded, raw } = await readAsPlatform(log, named(names), starts)
  const compacted = ['hub.records.e2', 'vectors.collections.e2', 'vectors.commands.e2']
  const inNewEpoch = (record: ReadRecord) => compacted.includes(record.topic)
  const fromNewEpoch = decoded.filter(inNewEpoch)
  const [python, kcat, java] = await Promise.all([
    readWithPython(log, starts),
    readWithKcat(log, compacted),
    readWithJava(log, { topics: compacted }, fromNewEpoch.length),
  ])
  expect(sorted(python)).toEqual(sorted(decoded))
  expect(sorted(kcat)).toEqual(sorted(raw.filter(inNewEpoch)))
  expect(sorted(java)).toEqual(sorted(asJava(fromNewEpoch)))
  // Nobody lost a key by it: the newest state of each is there.
  const stateOf = (records: ReadRecord[]) => new Map(records.map((record) => [record.key, record.value]))
  const notes = stateOf(before.filter(({ topic }) => topic === 'hub.records'))
  const notesNow = stateOf(fromNewEpoch.filter(({ topic }) => topic === 'hub.records.e2'))
  for (const [key, value] of notes) expect(notesNow.get(key)).toEqual(value)
})
