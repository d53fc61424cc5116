/** What readers of topics may read in a second. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createReadTurns } from '#services/access/limits/read-turns.ts'

const never = new AbortController().signal

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** Takes pieces as fast as it may; how many it had. */
function reader(turns: ReturnType<typeof createReadTurns>, caller: string, bytes = 1_000, signal = never) {
  const had = { pieces: 0 }
  void (async () => {
    while (!signal.aborted) {
      await turns.take(caller, bytes, signal)
      had.pieces++
      await Promise.resolve()
    }
  })()
  return had
}

test('a caller has its bytes a second, whatever the number of its readers', async () => {
  const turns = createReadTurns({ callerBytes: 10_000, allBytes: 1e9, now: () => Date.now() })
  const readers = [1, 2, 3, 4].map(() => reader(turns, 'a'))
  await vi.advanceTimersByTimeAsync(10_000)
  const pieces = readers.reduce((sum, { pieces }) => sum + pieces, 0)
  // Ten seconds, and the burst of one.
  expect(pieces).toBeGreaterThanOrEqual(100)
  expect(pieces).toBeLessThanOrEqual(116)
})

test('where all want more than there is, callers take turns, not readers', async () => {
  const turns = createReadTurns({ callerBytes: 1e9, allBytes: 10_000, now: () => Date.now() })
  const many = Array.from({ length: 9 }, () => reader(turns, 'many'))
  const one = reader(turns, 'one')
  await vi.advanceTimersByTimeAsync(20_000)
  const manyHad = many.reduce((sum, { pieces }) => sum + pieces, 0)
  expect(manyHad + one.pieces).toBeLessThanOrEqual(230)
  // Nine times as many readers get no more than a caller's half.
  expect(one.pieces).toBeGreaterThan(manyHad * 0.7)
})

test('a reader that leaves while it waits is let go, and holds nobody up', async () => {
  const turns = createReadTurns({ callerBytes: 1e9, allBytes: 1_000, now: () => Date.now() })
  const stop = new AbortController()
  await turns.take('a', 5_000, never)
  const left = turns.take('a', 1_000, stop.signal)
  const next = turns.take('b', 1_000, never)
  stop.abort()
  await left
  await vi.advanceTimersByTimeAsync(6_000)
  await next
})

test('small reads go at once', () => {
  const turns = createReadTurns()
  expect(turns.take('a', 1_000, never)).toBeUndefined()
})
