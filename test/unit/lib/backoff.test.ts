/** How long to wait between tries, sleeping, and time limits. */

import { expect, test } from 'vitest'
import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'

test('waits double up to the maximum, with full jitter below', () => {
  const highest = { baseMs: 100, maxMs: 5_000, random: () => 1 }
  expect([0, 1, 2, 5, 6, 400].map((n) => backoffMs(n, highest))).toEqual([100, 200, 400, 3200, 5000, 5000])
  expect(backoffMs(6, { ...highest, random: () => 0 })).toBe(0)
})

test('a sleep ends at once when it is aborted', async () => {
  const abort = new AbortController()
  const slept = sleep(60_000, abort.signal)
  abort.abort()
  await expect(slept).resolves.toBeUndefined()
  await expect(sleep(60_000, abort.signal)).resolves.toBeUndefined()
})

test('a promise that takes too long is given up with the named error', async () => {
  const never = new Promise<never>(() => {})
  await expect(withTimeout(never, 5, () => new Error('took too long'))).rejects.toThrow('took too long')
  await expect(withTimeout(Promise.resolve(1), 1_000, () => new Error('no'))).resolves.toBe(1)
})
