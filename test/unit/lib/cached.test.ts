/** What many look at is read once for all of them, and again when it is too old. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { createCached } from '#lib/cached.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

const limits = { keptMs: 1_000, timeoutMs: 100, late: () => new Error('late') }

test('who asks while it is read, or soon after, costs no further reading', async () => {
  let reads = 0
  const cached = createCached({
    ...limits,
    keptMs: 200,
    async read() {
      reads += 1
      await sleep(20)
      return reads
    },
  })
  const asked = Promise.all([cached.get(), cached.get(), cached.get()])
  await pass(20)
  expect(await asked).toEqual([1, 1, 1])
  expect(await cached.get()).toBe(1)
  await pass(200)
  const again = cached.get()
  await pass(20)
  expect(await again).toBe(2)
})

test('a reading that failed is not kept', async () => {
  let fails = true
  const cached = createCached({
    ...limits,
    async read() {
      if (fails) throw new Error('away')
      return 'here'
    },
  })
  await expect(cached.get()).rejects.toThrow('away')
  fails = false
  expect(await cached.get()).toBe('here')
})

test('a reading that takes too long is given up, and the next one who asks begins another', async () => {
  let hangs = true
  const cached = createCached({
    ...limits,
    read: () => (hangs ? new Promise<string>(() => {}) : Promise.resolve('here')),
  })
  const asked = expect(cached.get()).rejects.toThrow('late')
  await pass(limits.timeoutMs)
  await asked
  hangs = false
  expect(await cached.get()).toBe('here')
})
