/** How often a member of a group looks after its work. */

import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Ticker } from '#runtime/consume/ticker.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('is often while work waits, seldom while none does, and soon when work comes', () => {
  let waits = true
  const tick = vi.fn(() => waits)
  const ticker = new Ticker(200, tick)
  ticker.start()
  vi.advanceTimersByTime(1_000)
  expect(tick).toHaveBeenCalledTimes(6)

  waits = false
  vi.advanceTimersByTime(10_300)
  expect(tick).toHaveBeenCalledTimes(9)

  waits = true
  for (let i = 0; i < 10; i++) {
    ticker.wake()
    vi.advanceTimersByTime(50)
  }
  expect(tick).toHaveBeenCalledTimes(11)

  ticker.stop()
  ticker.wake()
  vi.advanceTimersByTime(60_000)
  expect(tick).toHaveBeenCalledTimes(11)
})
