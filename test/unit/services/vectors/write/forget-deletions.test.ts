/** When the vector engine has to forget deletions, and of what age. */

import { pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { startForgetting } from '#services/vectors/write/service.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('deletions of the configured age are forgotten soon after the start and every hour, also after a failure', async () => {
  const asked: number[] = []
  const vectors = {
    async forgetDeletions(olderThanMs: number) {
      asked.push(olderThanMs)
      if (asked.length === 1) throw new AppError('vector_engine_unavailable', 'away')
    },
  }
  const forgetting = startForgetting(vectors, 24, pino({ level: 'silent' }))
  await vi.advanceTimersByTimeAsync(59_000)
  expect(asked).toEqual([])
  await vi.advanceTimersByTimeAsync(2 * 3_600_000 + 2_000)
  expect(asked).toEqual([86_400_000, 86_400_000, 86_400_000])
  await forgetting.close()
  await vi.advanceTimersByTimeAsync(3_600_000)
  expect(asked.length).toBe(3)
})
