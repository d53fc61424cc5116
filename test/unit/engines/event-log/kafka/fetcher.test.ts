/** Partitions that bring nothing are fetched by the request that all readers share, until something comes. */

import type { Connection } from '@platformatic/kafka'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { Cluster } from '../../../../../engines/event-log/kafka/cluster.ts'
import type { Reading } from '../../../../../engines/event-log/kafka/fetch-call.ts'
import { Fetcher } from '../../../../../engines/event-log/kafka/fetcher.ts'
import { createQuietFetcher } from '../../../../../engines/event-log/kafka/quiet-fetcher.ts'
import { deadlines } from '../../../../../lib/deadlines.ts'
import { silentLog } from '../../../../support/relational.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

const topicId = 'a3f0c0de-0000-4000-8000-000000000001'
const waitMs = deadlines.engine.logFetchWaitMs

/** One partition at one broker, whose answers come when the test says so. */
function open() {
  const waiting: ((records: object[] | null) => void)[] = []
  const answerOf = (records: object[] | null) => ({
    responses: [{ topicId, partitions: [{ partitionIndex: 0, errorCode: 0, records }] }],
  })
  const connection = {
    socket: { bytesRead: 0 },
    close: async () => {},
    send(...args: unknown[]) {
      const done = args.at(-1) as (error: null, answer: object) => void
      waiting.push((records) => done(null, answerOf(records)))
    },
  } as unknown as Connection
  const cluster = {
    connections: () => ({ to: async () => connection, close: async () => {} }),
    topics: { get: async () => [{ partition: 0, leader: 1, leaderEpoch: 0, topicId }], forget() {} },
  } as unknown as Cluster
  const quiet = createQuietFetcher(cluster)
  function addReader(position: number) {
    const reading: Reading = { partition: 0, position, paused: false, epoch: -1, leaderEpoch: -1 }
    const reader = { looks: 0, reading }
    const fetcher = new Fetcher(
      { cluster, quiet },
      { topic: 'quiet', fetchBytesMax: 1_000 },
      {
        readable() {
          reader.looks++
          return reading.paused ? [] : [reading]
        },
        fetched(one, from, { records }) {
          if (one.position === from) one.position += records?.length ?? 0
        },
        outOfRange() {},
        replaced() {},
      },
      silentLog,
    )
    onTestFinished(() => fetcher.close())
    fetcher.wake()
    return Object.assign(reader, { fetcher })
  }
  const turn = () => vi.advanceTimersByTimeAsync(1)
  return {
    addReader,
    turn,
    /** Answers the oldest request. */
    async answer(records: object[] | null) {
      await vi.advanceTimersByTimeAsync(waitMs)
      waiting.shift()!(records)
      await turn()
    },
    asked: () => waiting.length,
  }
}

async function openQuiet() {
  const broker = open()
  const reader = broker.addReader(5)
  await broker.turn()
  await broker.answer(null)
  expect(broker.asked()).toBe(1)
  return { ...broker, reader }
}

test('an answer without records is followed by the next request, and wakes no reader', async () => {
  const { answer, asked, reader } = await openQuiet()
  const before = reader.looks
  for (let n = 0; n < 10; n++) await answer(null)
  expect(asked()).toBe(1)
  // The next request asks each reader once.
  expect(reader.looks - before).toBe(10)
})

test('records are followed by the next request, also where the partition was paused meanwhile', async () => {
  const { answer, asked, reader, turn } = await openQuiet()
  const { reading, fetcher } = reader
  await answer([{}, {}])
  expect([asked(), reading.position]).toEqual([1, 7])
  await answer(null)
  reading.paused = true
  // A request to another broker is made.
  fetcher.quietAt(2)
  reading.paused = false
  fetcher.wake()
  await turn()
  await answer([{}])
  expect([asked(), reading.position]).toEqual([1, 8])
})

test('a reader that goes back leaves the others of its partition a request of their own', async () => {
  const { addReader, answer, asked, reader, turn } = await openQuiet()
  const other = addReader(5)
  await turn()
  // Its own requests, until it is in the shared one.
  for (let n = 0; n < 4; n++) await answer(null)
  expect(asked()).toBe(1)
  reader.reading.position = 3
  reader.fetcher.wake()
  await turn()
  expect(asked()).toBe(2)
  // The next shared request reads from 3: the other one asks by itself again.
  await answer(null)
  expect(asked()).toBe(3)
  await answer(null)
  await answer(null)
  await answer([{}])
  expect(other.reading.position).toBe(6)
})
