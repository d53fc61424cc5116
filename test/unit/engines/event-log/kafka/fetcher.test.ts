/** Partitions that bring nothing are fetched by the request that all readers share, until something comes. */

import { type Connection, createRecordsBatch, Writer } from '@platformatic/kafka'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { Cluster } from '../../../../../engines/event-log/kafka/cluster.ts'
import type { FetchedPartition, Reading } from '../../../../../engines/event-log/kafka/fetch-call.ts'
import { Fetcher } from '../../../../../engines/event-log/kafka/fetcher.ts'
import { createQuietFetcher } from '../../../../../engines/event-log/kafka/quiet-fetcher.ts'
import { deadlines } from '../../../../../lib/deadlines.ts'
import { silentLog } from '../../../../support/relational.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

const topicId = 'a3f0c0de-0000-4000-8000-000000000001'
const waitMs = deadlines.engine.logFetchWaitMs

/** An answer for one partition with so many batches, without the header: version 13 of Fetch in Kafka's protocol. */
function answerOf(batches: number, end: number): Buffer {
  const records = Array.from(
    { length: batches },
    () => createRecordsBatch([{ topic: 'quiet', value: Buffer.from('x') }]).buffer,
  )
  const writer = Writer.create().appendInt32(0).appendInt16(0).appendInt32(0)
  writer.appendArray([topicId], (_, id) => {
    writer.appendUUID(id).appendArray([0], () => {
      writer.appendInt32(0).appendInt16(0).appendInt64(BigInt(end)).appendInt64(BigInt(end)).appendInt64(0n)
      writer.appendArray([], () => {}).appendInt32(-1)
      writer.appendBytes(batches > 0 ? Buffer.concat(records) : null)
    })
  })
  return writer.appendTaggedFields().buffer
}

/** One partition at one broker, whose answers come when the test says so. */
function open() {
  const waiting: ((batches: number) => void)[] = []
  let end = 5
  const connection = {
    socket: { bytesRead: 0 },
    close: async () => {},
    send(...args: unknown[]) {
      const done = args.at(-1) as (error: null, answer: Buffer) => void
      waiting.push((batches) => {
        end += batches
        done(null, answerOf(batches, end))
      })
    },
  } as unknown as Connection
  const cluster = {
    connections: () => ({ to: async () => connection, close: async () => {} }),
    topics: { get: async () => [{ partition: 0, leader: 1, leaderEpoch: 0, topicId }], forget() {} },
  } as unknown as Cluster
  const quiet = createQuietFetcher(cluster)
  function addReader(position: number) {
    const reading: Reading = { partition: 0, position, paused: false, epoch: -1, leaderEpoch: -1 }
    const reader = { looks: 0, reading, answers: [] as FetchedPartition[] }
    const fetcher = new Fetcher(
      { cluster, quiet },
      { topic: 'quiet', fetchBytesMax: 1_000 },
      {
        readable() {
          reader.looks++
          return reading.paused ? [] : [reading]
        },
        fetched(one, from, answer) {
          reader.answers.push(answer)
          if (one.position === from) one.position += answer.records?.length ?? 0
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
    async answer(batches: number) {
      await vi.advanceTimersByTimeAsync(waitMs)
      waiting.shift()!(batches)
      await turn()
    },
    asked: () => waiting.length,
  }
}

async function openQuiet() {
  const broker = open()
  const reader = broker.addReader(5)
  await broker.turn()
  await broker.answer(0)
  expect(broker.asked()).toBe(1)
  return { ...broker, reader }
}

test('an answer without records is followed by the next request, and wakes no reader', async () => {
  const { answer, asked, reader } = await openQuiet()
  const before = reader.looks
  for (let n = 0; n < 10; n++) await answer(0)
  expect(asked()).toBe(1)
  // The next request asks each reader once.
  expect(reader.looks - before).toBe(10)
})

test('an answer that says the same as the last one is not read again', async () => {
  const { answer, reader } = await openQuiet()
  await answer(0)
  await answer(0)
  const [first, second] = reader.answers.slice(-2)
  expect(second).toBe(first)
  await answer(1)
  expect(reader.reading.position).toBe(6)
  // Its own request, then the shared one.
  for (let n = 0; n < 3; n++) await answer(0)
  expect(reader.answers.at(-1)).toMatchObject({ highWatermark: 6n, records: null })
})

test('records are followed by the next request, also where the partition was paused meanwhile', async () => {
  const { answer, asked, reader, turn } = await openQuiet()
  const { reading, fetcher } = reader
  await answer(2)
  expect([asked(), reading.position]).toEqual([1, 7])
  await answer(0)
  reading.paused = true
  // A request to another broker is made.
  fetcher.quietAt(2)
  reading.paused = false
  fetcher.wake()
  await turn()
  await answer(1)
  expect([asked(), reading.position]).toEqual([1, 8])
})

test('a reader that goes back leaves the others of its partition a request of their own', async () => {
  const { addReader, answer, asked, reader, turn } = await openQuiet()
  const other = addReader(5)
  await turn()
  // Its own requests, until it is in the shared one.
  for (let n = 0; n < 4; n++) await answer(0)
  expect(asked()).toBe(1)
  reader.reading.position = 3
  reader.fetcher.wake()
  await turn()
  expect(asked()).toBe(2)
  // The next shared request reads from 3: the other one asks by itself again.
  await answer(0)
  expect(asked()).toBe(3)
  await answer(0)
  await answer(0)
  await answer(1)
  expect(other.reading.position).toBe(6)
})
