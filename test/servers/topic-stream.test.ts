/** The stream of a topic's records on Kafka: it begins, resumes and filters there as on the embedded log. */

import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import type { OperatedPlatform } from '#operations/operation.ts'
import { streamTopic, type TopicStreamArgs } from '#operations/topic-stream/topic-stream.ts'
import { fleetEvents } from '#topics/catalog.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { kafkaBrokers } from '../support/servers.ts'
import { topicSpec } from '../support/topic-spec.ts'

const partitions = 3

async function openTopic() {
  const eventLog: EventLog = await openKafkaLog({
    brokers: await kafkaBrokers(),
    clientId: 'test',
    log: silentLog,
  })
  onTestFinished(() => eventLog.close())
  const physicalName = `stream-${randomUUID().slice(0, 8)}`
  await eventLog.createTopic(topicSpec(physicalName, { partitions }))
  let written = 0
  return {
    platform: {
      engines: { eventLog },
      codec: { decode: async (_: unknown, { value }: { value: Buffer }) => ({ value: String(value) }) },
      publisher: { locationOf: () => ({ physicalName, epoch: 1, partitions }) },
    } as unknown as OperatedPlatform,
    async write(count: number): Promise<string[]> {
      const values = Array.from({ length: count }, () => `n-${++written}`)
      for (const [n, value] of values.entries()) {
        const record = { key: Buffer.from('k'), value: Buffer.from(value), headers: { n: value } }
        await eventLog.append(physicalName, n % partitions, [record])
      }
      return values
    },
  }
}

function read(platform: OperatedPlatform, given: Partial<TopicStreamArgs> = {}) {
  const shown: string[] = []
  const events: string[] = []
  let lastId: string | undefined
  const stop = new AbortController()
  const args: TopicStreamArgs = { topic: fleetEvents.name, filter: {}, from: 'end', ...given }
  const over = streamTopic(
    platform,
    args,
    {
      hasRoom: () => true,
      room: async () => {},
      record(id, { value }) {
        lastId = id
        shown.push(String(value))
      },
      skipped: (_, { reason }) => void events.push(reason),
      reset: () => void events.push('reset'),
      passed(id) {
        lastId = id
      },
    },
    stop.signal,
  )
  onTestFinished(() => stop.abort())
  return {
    shown,
    events,
    lastId: () => lastId,
    async cut() {
      stop.abort()
      await over
    },
  }
}

test('a stream on Kafka shows new records, resumes without a gap, and leaves no group behind', async () => {
  const { platform, write } = await openTopic()
  const before = await write(6)
  const whole = read(platform, { from: 'beginning' })
  await eventually('all is shown', () => whole.shown.length === 6, 30_000)
  expect([...whole.shown].sort()).toEqual([...before].sort())
  const newest = read(platform, { from: { newest: 1 } })
  await eventually('the newest of each partition are shown', () => newest.shown.length === 3, 30_000)
  expect([...newest.shown].sort()).toEqual(before.slice(-3))
  const live = await write(30)
  await eventually('new records are shown', () => whole.shown.length === 36, 10_000)
  await whole.cut()
  const missed = await write(30)
  const resumed = read(platform, { lastEventId: whole.lastId()! })
  await eventually('missed records are shown', () => resumed.shown.length >= 30, 30_000)
  const more = await write(3)
  await eventually('and new ones', () => resumed.shown.length >= 33, 10_000)
  await sleep(500)
  expect([...resumed.shown].sort()).toEqual([...missed, ...more].sort())
  expect(resumed.events).toEqual([])
  const one = read(platform, { from: 'beginning', filter: { header: { name: 'n', value: live[4]! } } })
  await eventually('the header is found', () => one.shown.length === 1, 30_000)
  for (const reader of [newest, resumed, one]) await reader.cut()
  const groups = await platform.engines.eventLog.listGroups()
  expect(groups.filter((group) => group.startsWith('flotilla-tail-'))).toEqual([])
})
