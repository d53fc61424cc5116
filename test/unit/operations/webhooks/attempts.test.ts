/** Attempts of the last hour, minute by minute. */

import { expect, test } from 'vitest'
import { createAttemptBars } from '#operations/webhooks/attempts.ts'

const minuteMs = 60_000

test('each minute has its attempts by how they ended, for an hour', () => {
  let nowMs = 1_000 * minuteMs
  const bars = createAttemptBars(() => nowMs)
  const take = (kind: 'success' | 'retry' | 'dead_letter' | 'state', minutesAgo: number) =>
    bars.take({ target: 'audit', kind, occurred_at: nowMs - minutesAgo * minuteMs })
  take('success', 0)
  take('success', 0)
  take('retry', 1)
  take('dead_letter', 59)
  take('success', 60)
  take('state', 0)
  const [audit] = bars.all()
  expect(audit?.target).toBe('audit')
  expect([audit?.delivered.at(-1), audit?.retried.at(-2), audit?.dead_letters[0]]).toEqual([2, 1, 1])
  expect(audit?.delivered.reduce((sum, one) => sum + one)).toBe(2)
  nowMs += minuteMs
  expect(bars.all()[0]?.dead_letters.every((count) => count === 0)).toBe(true)
  expect(bars.all()[0]?.delivered.at(-2)).toBe(2)
  nowMs += 60 * minuteMs
  take('success', 0)
  expect(bars.all()[0]?.delivered.filter((count) => count > 0)).toEqual([1])
})
