/** How busy an ordered target is kept by retries, as the check of the targets file warns. */

import { describe, expect, it } from 'vitest'
import { backoffWithin, targetLoad } from '#services/webhooks/deliver/load-watch.ts'

const traffic = { ratePerS: 20, failedShare: 0.1, callMs: 2 }

describe('the load of an ordered target', () => {
  it('is what simulations of such lanes show: a second of back-off at 20 events a second is too much', () => {
    expect(targetLoad({ backoffMs: 100, retry: 5 }, traffic)).toBeLessThan(0.3)
    expect(targetLoad({ backoffMs: 250, retry: 5 }, traffic)).toBeLessThan(0.6)
    expect(targetLoad({ backoffMs: 1_000, retry: 5 }, traffic)).toBeGreaterThan(1)
  })

  it('is that of the calls alone where nothing fails or nothing is repeated', () => {
    expect(targetLoad({ backoffMs: 60_000, retry: 9 }, { ...traffic, failedShare: 0 })).toBeCloseTo(0.04)
    expect(targetLoad({ backoffMs: 60_000, retry: 0 }, traffic)).toBeCloseTo(0.04)
  })

  it('names the back-off that would do', () => {
    const enough = backoffWithin(0.9, 5, traffic)!
    expect(targetLoad({ backoffMs: enough, retry: 5 }, traffic)).toBeLessThanOrEqual(0.9)
    expect(targetLoad({ backoffMs: enough + 1, retry: 5 }, traffic)).toBeGreaterThan(0.9)
    expect(backoffWithin(0.9, 5, { ...traffic, callMs: 100 })).toBeNull()
  })
})
