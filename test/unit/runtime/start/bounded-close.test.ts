/** How the ten seconds of a stop are shared between requests, workers and engines. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { deadlines } from '#lib/deadlines.ts'
import { createStop } from '#lib/resource.ts'

const { allMs, enginesMs, workersMs, lastWritesMs } = deadlines.stop

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const hanging = { close: () => new Promise<void>(() => {}) }
const takes = (ms: number) => ({ close: () => new Promise<void>((resolve) => setTimeout(resolve, ms)) })

async function closed(resource: { close(): Promise<void> }): Promise<number> {
  const begun = performance.now()
  const closing = resource.close().catch(() => {})
  let over = false
  void closing.then(() => {
    over = true
  })
  while (!over) await vi.advanceTimersByTimeAsync(100)
  return performance.now() - begun
}

test('work goes on for as long as engines do not need the time', async () => {
  const stop = createStop()
  await closed(stop.bound(takes(0), 3_000))
  expect(stop.drainMs()).toBeGreaterThan(allMs - enginesMs - lastWritesMs - 200)
  expect(await closed(stop.boundWorkers(hanging))).toBeLessThanOrEqual(allMs - enginesMs + 100)
  expect(await closed(stop.bound(hanging))).toBeGreaterThan(enginesMs - 300)
})

test('requests that took their time leave workers theirs', async () => {
  const stop = createStop()
  await closed(stop.bound(hanging, allMs - enginesMs - workersMs))
  expect(stop.drainMs()).toBeGreaterThanOrEqual(workersMs - lastWritesMs - 200)
})

test('a worker that has the process to itself drains for as long as it says, also not at all', () => {
  expect(createStop(300_000).drainMs()).toBe(300_000)
  expect(createStop(0).drainMs()).toBe(0)
})
