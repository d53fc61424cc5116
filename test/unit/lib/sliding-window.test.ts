/** The window that all limits share. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSlidingWindows } from '#lib/sliding-window.ts'

test('no window of any limit ever holds more than its count, and a refusal names the first moment that passes', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 200 }), (gaps) => {
      const limits = [
        { count: 3, windowMs: 100 },
        { count: 5, windowMs: 400 },
      ]
      const windows = createSlidingWindows(limits, 10)
      const admitted: number[] = []
      let now = 0
      for (const gap of gaps) {
        now += gap
        const wait = windows.waitMs('k', now)
        if (wait === 0) {
          windows.count('k', now)
          admitted.push(now)
        } else {
          expect(fits(limits, admitted, now + wait)).toBe(true)
          expect(fits(limits, admitted, now + wait - 1)).toBe(false)
        }
      }
      for (const time of admitted) {
        for (const { count, windowMs } of limits) {
          expect(
            admitted.filter((other) => other > time - windowMs && other <= time).length,
          ).toBeLessThanOrEqual(count)
        }
      }
    }),
  )
})

function fits(limits: { count: number; windowMs: number }[], admitted: number[], at: number): boolean {
  return limits.every(({ count, windowMs }) => admitted.filter((time) => time > at - windowMs).length < count)
}
