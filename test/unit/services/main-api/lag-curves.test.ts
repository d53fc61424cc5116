/** Curves of lag are thinned without losing a peak. */

import { expect, test } from 'vitest'
import { lagCurves } from '#services/main-api/lag-curves.ts'

test('each step has the highest lag of it, and a step without a sample has none', () => {
  const nowMs = Date.parse('2026-01-31T12:00:00Z')
  const at = (secondsAgo: number) => new Date(nowMs - secondsAgo * 1_000).toISOString()
  const samples = [
    { at: at(119), lag: 1 },
    { at: at(100), lag: 9 },
    { at: at(61), lag: 2 },
    { at: at(0), lag: 4 },
  ]
  const history = { of: (group: string) => (group === 'writer' ? samples : null) }
  const curves = lagCurves(history, ['writer', 'nobody'], { minutes: 2, steps: 4, nowMs })
  expect(curves.at.at(-1)).toBe('2026-01-31T12:00:00.000Z')
  expect(curves.groups).toEqual([
    { group: 'writer', lag: [9, 2, null, 4] },
    { group: 'nobody', lag: [null, null, null, null] },
  ])
})
