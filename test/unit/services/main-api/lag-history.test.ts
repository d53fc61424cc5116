/** The ring of lags: six hours, a gap where nothing could be read, and no more memory than that; curves without losing a peak. */

import { expect, test } from 'vitest'
import { createLagRing, keptMs, lagCurves, sampleEveryMs } from '#services/main-api/lag-history.ts'

const at = (ms: number) => new Date(ms).toISOString()

test('samples come back in order, from the time that is asked for', () => {
  const ring = createLagRing()
  ring.add(1_000, [{ group: 'a', lag: 5 }])
  ring.add(2_000, [
    { group: 'a', lag: 0 },
    { group: 'b', lag: 7 },
  ])
  ring.add(3_000, [{ group: 'b', lag: 9 }])
  expect(ring.of('a', 0)).toEqual([
    { at: at(1_000), lag: 5 },
    { at: at(2_000), lag: 0 },
  ])
  expect(ring.of('b', 2_500)).toEqual([{ at: at(3_000), lag: 9 }])
  expect(ring.of('c', 0)).toBeNull()
})

test('samples older than six hours are gone', () => {
  const ring = createLagRing()
  const samples = keptMs / sampleEveryMs
  for (let n = 0; n < samples + 10; n++) ring.add(n * sampleEveryMs, [{ group: 'a', lag: n }])
  const kept = ring.of('a', 0)!
  expect(kept).toHaveLength(4_320)
  expect(kept[0]).toEqual({ at: at(10 * sampleEveryMs), lag: 10 })
  expect(kept.at(-1)!.lag).toBe(samples + 9)
})

test('the number of groups is bounded', () => {
  const ring = createLagRing()
  for (let n = 0; n < 300; n++) ring.add(n, [{ group: `g${n}`, lag: 1 }])
  const known = Array.from({ length: 300 }, (_, n) => ring.of(`g${n}`, 0)).filter((own) => own !== null)
  expect(known).toHaveLength(200)
})

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
