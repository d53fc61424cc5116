/** A tail of Kafka asks for the ends of the log only while somebody wants to know whether it is current. */

import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { Cluster } from '../../../../../engines/event-log/kafka/cluster.ts'
import { createQuietFetcher } from '../../../../../engines/event-log/kafka/quiet-fetcher.ts'
import { openTail } from '../../../../../engines/event-log/kafka/tail.ts'
import { silentLog } from '../../../../support/relational.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

/** An empty topic whose partition has no leader to be read from. */
function open() {
  const state = { asked: 0, away: false }
  const connections = { close: async () => {} }
  const cluster = {
    connections: () => connections,
    topics: { get: async () => [{ partition: 0, leader: -1, topicId: 'id' }], forget() {} },
  } as unknown as Cluster
  async function ask() {
    state.asked++
    if (state.away) throw new Error('no answer')
    return [{ partition: 0, start: 0, end: 0 }]
  }
  const tail = openTail(
    { topic: 'quiet', from: 'beginning', records: () => {} },
    {
      cluster,
      quiet: createQuietFetcher(cluster),
      ranges: {
        ranges: ask,
        rangesNow: ask,
        rangesOf: async () => new Map(),
        ends: ask,
        endsOf: async () => new Map(),
      },
      log: silentLog,
      isCompacted: async () => false,
    },
  )
  onTestFinished(() => tail.close())
  return { state, tail }
}

test('it is ready without anybody asking, and asks no more while nobody wants to know', async () => {
  const { state, tail } = open()
  await vi.advanceTimersByTimeAsync(10)
  await tail.ready
  await vi.advanceTimersByTimeAsync(60_000)
  expect(state.asked).toBe(1)
})

test('while somebody wants to know, every answer is younger than a second', async () => {
  const { state, tail } = open()
  await vi.advanceTimersByTimeAsync(7_000)
  expect(tail.current()).toBe(false)
  await vi.advanceTimersByTimeAsync(10)
  for (let n = 0; n < 20; n++) {
    expect(tail.current()).toBe(true)
    await vi.advanceTimersByTimeAsync(700)
  }
  await vi.advanceTimersByTimeAsync(10_000)
  const before = state.asked
  await vi.advanceTimersByTimeAsync(60_000)
  expect(state.asked - before).toBeLessThan(20)
})

test('after a quiet time it is asked once more before it answers', async () => {
  const { state, tail } = open()
  await vi.advanceTimersByTimeAsync(7_000)
  const before = state.asked
  const answer = tail.caughtUp()
  await vi.advanceTimersByTimeAsync(10)
  expect(await answer).toBe(true)
  expect(state.asked).toBe(before + 1)
})

test('a log that is away holds nobody up', async () => {
  const { state, tail } = open()
  await vi.advanceTimersByTimeAsync(7_000)
  state.away = true
  const first = tail.caughtUp()
  await vi.advanceTimersByTimeAsync(10)
  expect(await first).toBe(false)
  await vi.advanceTimersByTimeAsync(3_000)
  expect(await tail.caughtUp()).toBe(false)
  state.away = false
  await vi.advanceTimersByTimeAsync(2_000)
  expect(tail.current()).toBe(true)
})
