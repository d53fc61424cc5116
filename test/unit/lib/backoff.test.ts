/** How long to wait between tries, sleeping, and time limits. */

import { expect, onTestFinished, test, vi } from 'vitest'
import { backoffMs, onBeat, sleep, timerErrorMs, withTimeout } from '#lib/backoff.ts'

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

test('long pauses of one length end together, and none is longer but by the error of a timer', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const endsOf = (ms: number) => {
    const pauses = Array.from({ length: 40 }, () => {
      vi.advanceTimersByTime(37)
      return { from: performance.now(), ms: onBeat(ms) }
    })
    for (const pause of pauses) expect(pause.ms).toBeLessThanOrEqual(ms + timerErrorMs)
    return new Set(pauses.map((pause) => pause.from + pause.ms))
  }
  for (const ms of [1_000, 1_250, 5_000]) for (const end of endsOf(ms)) expect(end % ms).toBe(0)
  // Another length gives up a beat at most.
  for (const end of endsOf(1_333)) expect(end % 250).toBe(0)
  expect(onBeat(1_333)).toBeGreaterThan(1_333 - 250 - 3)
  expect(onBeat(200)).toBe(200)
})

test('a timer that came too early does not end two pauses at one time', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  vi.advanceTimersByTime(onBeat(1_000) - 1)
  expect(onBeat(1_000)).toBe(1_001)
})
