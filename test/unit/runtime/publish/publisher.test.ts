/** Typed messages become records: keys, partitions, headers and positions. */

import { expect, test } from 'vitest'
import type { EventLog, NewRecord } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'
import { partitionOf } from '#lib/murmur2.ts'
import { createCodec } from '#runtime/publish/codec.ts'
import { type FencedPublisher, headerNames, type TopicLocation } from '#runtime/publish/messages.ts'
import { createPartitionWriters, createPublisher } from '#runtime/publish/publisher.ts'
import { adminAudit, vectorsCommands, vectorsProgress } from '#topics/catalog.ts'
import { createMemoryLog } from '../../../support/memory-log.ts'
import { createMemoryRegistry } from '../../../support/memory-registry.ts'

interface Append {
  topic: string
  partition: number
  records: NewRecord[]
  options: { timeoutMs?: number } | undefined
}

/** Takes records as a log would: offsets rise by partition. */
function recordingLog(fault?: AppError) {
  const appends: Append[] = []
  const next = new Map<number, number>()
  const append: EventLog['append'] = async (topic, partition, records, options) => {
    if (fault) throw fault
    appends.push({ topic, partition, records, options })
    const first = next.get(partition) ?? 100 * (partition + 1)
    next.set(partition, first + records.length)
    return first
  }
  return { appends, eventLog: { append } as unknown as EventLog }
}

const locations = new Map<string, TopicLocation>([
  ['vectors.commands', { physicalName: 'vectors.commands.v2', epoch: 2, partitions: 12 }],
  ['vectors.progress', { physicalName: 'vectors.progress', epoch: 1, partitions: 12 }],
])

function publisherOver(eventLog: EventLog) {
  return createPublisher({
    eventLog,
    codec: createCodec(createMemoryRegistry()),
    locations,
    producerName: 'tester',
  })
}

const point = (id: string) => ({
  key: { collection: 'posts', id },
  value: { vector: Buffer.alloc(4), payload: '{}', embedder: null, making: null, expires_at: null },
})

test('one append for each partition, positions in the order that was given', async () => {
  const { appends, eventLog } = recordingLog()
  const messages = Array.from({ length: 200 }, (_, n) => point(`p${n % 50}`))
  const positions = await publisherOver(eventLog).publish(vectorsCommands, messages)
  expect(appends.length).toBe(new Set(appends.map((append) => append.partition)).size)
  expect(positions).toHaveLength(200)
  messages.forEach((message, n) => {
    const key = `posts/${message.key.id}`
    const { partition, offset } = positions[n]!
    expect(partition).toBe(partitionOf(Buffer.from(key), 12))
    const record = appends.find((append) => append.partition === partition)!.records[
      offset - 100 * (partition + 1)
    ]!
    expect(record.key!.toString()).toBe(key)
  })
})

test('messages of one key keep their order', async () => {
  const { appends, eventLog } = recordingLog()
  await publisherOver(eventLog).publish(
    vectorsCommands,
    Array.from({ length: 20 }, (_, n) => ({ ...point('same'), headers: { operation: String(n) } })),
  )
  expect(appends).toHaveLength(1)
  expect(appends[0]!.records.map((record) => record.headers!.operation)).toEqual(
    Array.from({ length: 20 }, (_, n) => String(n)),
  )
})

test('records go to the topic’s physical name, and with a fixed partition all to that one', async () => {
  const { appends, eventLog } = recordingLog()
  const positions = await publisherOver(eventLog).publish(
    vectorsCommands,
    [point('a'), point('b'), point('c')],
    {
      partition: 5,
      timeoutMs: 77,
    },
  )
  expect(appends).toMatchObject([{ topic: 'vectors.commands.v2', partition: 5, options: { timeoutMs: 77 } }])
  expect(positions.map((position) => position.offset)).toEqual([600, 601, 602])
})

test('every record has its event id, producer and time, and keeps the headers that it was given', async () => {
  const { appends, eventLog } = recordingLog()
  await publisherOver(eventLog).publish(vectorsCommands, [
    { ...point('a'), headers: { [headerNames.agent]: 'whale' } },
    { ...point('a'), eventId: 'given' },
    { key: { collection: 'posts', id: 'a' }, value: null },
  ])
  const [first, second, tombstone] = appends[0]!.records
  expect(first!.headers).toMatchObject({ producer: 'tester', agent: 'whale' })
  expect(first!.headers!['event-id']).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
  expect(first!.headers!['occurred-at']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  expect(second!.headers!['event-id']).toBe('given')
  expect(tombstone!.value).toBeNull()
})

test('a fault of the log reaches the caller unchanged', async () => {
  const { eventLog } = recordingLog(new AppError('log_unavailable', 'The event log does not answer.'))
  await expect(publisherOver(eventLog).publish(vectorsCommands, [point('a')])).rejects.toMatchObject({
    code: 'log_unavailable',
  })
})

test('nothing is sent when one message of many does not fit its schema', async () => {
  const { appends, eventLog } = recordingLog()
  const bad = { ...point('b'), value: { vector: 'text', payload: '{}' } as never }
  await expect(publisherOver(eventLog).publish(vectorsCommands, [point('a'), bad])).rejects.toThrow()
  expect(appends).toEqual([])
})

test('locations of topics may change while running; a topic without one is named', async () => {
  const { eventLog } = recordingLog()
  const moving = new Map(locations)
  const publisher = createPublisher({
    eventLog,
    codec: createCodec(createMemoryRegistry()),
    locations: moving,
    producerName: 'tester',
  })
  const progress = vectorsProgress
  expect(publisher.locationOf(progress).partitions).toBe(12)
  moving.set('vectors.progress', { physicalName: 'vectors.progress.e2', epoch: 2, partitions: 24 })
  expect(publisher.locationOf(progress)).toEqual({
    physicalName: 'vectors.progress.e2',
    epoch: 2,
    partitions: 24,
  })
  moving.delete('vectors.progress')
  expect(() => publisher.locationOf(progress)).toThrow(/vectors\.progress/)
})

test('nothing to publish is no call', async () => {
  const { appends, eventLog } = recordingLog()
  expect(await publisherOver(eventLog).publish(vectorsCommands, [])).toEqual([])
  expect(appends).toEqual([])
})

test('a batch is published as it was added, and again after a failure under the same event ids', async () => {
  const log = recordingLog()
  let fails = true
  const append: EventLog['append'] = async (...all) => {
    const first = await log.eventLog.append(...all)
    if (fails) throw new AppError('log_unavailable', 'It is away.')
    return first
  }
  const batch = publisherOver({ append } as unknown as EventLog).batch(vectorsCommands)
  for (let n = 0; n < 20; n++) await batch.add(point(`p${n}`))
  expect(batch.size).toBe(20)
  await expect(batch.publish()).rejects.toMatchObject({ code: 'log_unavailable' })
  const ids = (all: Append[]) =>
    all.flatMap(({ records }) => records.map(({ headers }) => headers![headerNames.eventId])).toSorted()
  const before = ids(log.appends.splice(0))
  fails = false
  const positions = await batch.publish({ timeoutMs: 50 })
  expect(positions).toHaveLength(20)
  expect(ids(log.appends)).toEqual(before)
  expect(new Set(before).size).toBe(20)
  expect(log.appends[0]!.options).toEqual({ timeoutMs: 50 })
})

test('a message that cannot be encoded is not in its batch', async () => {
  const { appends, eventLog } = recordingLog()
  const batch = publisherOver(eventLog).batch(vectorsCommands)
  await batch.add(point('a'))
  expect(() => batch.add({ ...point('b'), value: { vector: 'none' } as never })).toThrow()
  await batch.publish()
  expect(appends.flatMap(({ records }) => records)).toHaveLength(1)
})

test('a fenced publisher publishes under its name until another one takes that over', async () => {
  const log = createMemoryLog()
  const kept = { cleanup: 'compact', retentionMs: null, tombstoneRetentionMs: 1_000 } as const
  const limits = { segmentBytes: 1_000_000, segmentMs: 1_000, recordBytesMax: 1_000_000 }
  await log.createTopic({ name: 'vectors.commands.v2', partitions: 12, ...kept, ...limits })
  const [one, two] = [publisherOver(log), publisherOver(log)]
  const former = await one.fenced('worker')
  const batch = former.batch(vectorsCommands)
  await batch.add(point('b'))
  await former.publish(vectorsCommands, [point('a')])
  const next = await two.fenced('worker')
  await next.publish(vectorsCommands, [point('c')])
  await expect(former.publish(vectorsCommands, [point('a')])).rejects.toMatchObject({ code: 'fenced' })
  await expect(batch.publish()).rejects.toMatchObject({ code: 'fenced' })
  await one.publish(vectorsCommands, [point('d')])
  const keys = log.records('vectors.commands.v2').map((record) => record.key!.toString())
  expect(keys.toSorted()).toEqual(['posts/a', 'posts/c', 'posts/d'])
})

test('bytes that the log has taken are given back; those of a batch that failed stay until all are taken', async () => {
  const large = (n: number) => ({
    ...point(`p${n}`),
    value: { vector: Buffer.alloc(6_144, n), payload: '{}', embedder: null, making: null, expires_at: null },
  })
  const taken: Append[] = []
  let faulty: number | undefined
  const append: EventLog['append'] = async (topic, partition, records, options) => {
    if (partition === faulty) throw new AppError('log_unavailable', 'away')
    taken.push({ topic, partition, records: records.map((record) => ({ ...record })), options })
    // They share memory: each holds its own.
    for (const { key, value } of records) {
      expect(value!.length).toBeGreaterThan(6_144)
      expect(value!.subarray(10, 6_100).every((byte) => key!.toString() === `posts/p${byte}`)).toBe(true)
    }
    return 0
  }
  const batch = publisherOver({ append } as unknown as EventLog).batch(vectorsCommands)
  for (let n = 0; n < 40; n++) await batch.add(large(n))
  faulty = partitionOf(Buffer.from('posts/p0'), 12)
  await expect(batch.publish()).rejects.toThrow('away')
  faulty = undefined
  await batch.publish()
  expect(taken.flatMap(({ records }) => records).every(({ value }) => value!.length === 0)).toBe(true)
})

/** A log of writer names: the newest holder of each may publish. */
function open() {
  const holders = new Map<string, number>()
  const closed: string[] = []
  const publisher = {
    async fenced(name: string): Promise<FencedPublisher> {
      const holder = (holders.get(name) ?? 0) + 1
      holders.set(name, holder)
      return {
        async publish() {
          if (holders.get(name) !== holder) throw new AppError('fenced', 'Another one has the name.')
          return []
        },
        batch: () => {
          throw new Error('not used')
        },
        close: async () => void closed.push(`${name} ${holder}`),
      }
    },
  }
  return { publisher, closed, writers: createPartitionWriters(publisher, 'worker') }
}

test('each partition has a name of its own, and one that was not gained has none', async () => {
  const { writers, closed } = open()
  await writers.takeOver([{ partition: 0 }, { partition: 3 }])
  await writers.of(0).publish(adminAudit, [])
  await writers.of(3).publish(adminAudit, [])
  expect(() => writers.of(1)).toThrow('partition 1')
  await writers.close()
  expect(closed.toSorted()).toEqual(['worker-0 1', 'worker-3 1'])
})

test('a publish that is fenced off fails, and the next one has the name again', async () => {
  const { writers, publisher, closed } = open()
  await writers.takeOver([{ partition: 0 }])
  await publisher.fenced('worker-0')
  await expect(writers.of(0).publish(adminAudit, [])).rejects.toMatchObject({ code: 'fenced' })
  expect(closed).toEqual(['worker-0 1'])
  await writers.of(0).publish(adminAudit, [])
})
