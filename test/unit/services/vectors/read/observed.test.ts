/** The p95 of searches over the last minutes. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLatencies, windowS } from '#services/vectors/read/observed.ts'
import { propertyRuns } from '../../../../support/property-runs.ts'

test('the p95 is within 3 % of the true one', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0.1, max: 50_000, noNaN: true }), { minLength: 1 }), (tookMs) => {
      const latencies = createLatencies(() => 0)
      for (const one of tookMs) latencies.note(one)
      const exact = [...tookMs].sort((a, b) => a - b)[Math.ceil(tookMs.length * 0.95) - 1]!
      const reported = latencies.quantile(0.95)!
      expect(reported / exact).toBeGreaterThan(0.97)
      expect(reported / exact).toBeLessThan(1.03)
      expect(latencies.count()).toBe(tookMs.length)
    }),
    { numRuns: propertyRuns(1_000) },
  )
})

test('samples older than five minutes are dropped, and none at all is null', () => {
  let now = 1_000_000
  const latencies = createLatencies(() => now)
  expect(latencies.quantile(0.95)).toBeNull()
  latencies.note(700)
  now += (windowS - 20) * 1_000
  latencies.note(7)
  expect([latencies.count(), Math.round(latencies.quantile(0.99)! / 100)]).toEqual([2, 7])
  now += 30_000
  expect([latencies.count(), Math.round(latencies.quantile(0.99)!)]).toEqual([1, 7])
  now += windowS * 1_000
  expect(latencies.quantile(0.95)).toBeNull()
  latencies.note(Number.POSITIVE_INFINITY)
  latencies.note(0)
  expect(latencies.count()).toBe(2)
})
