/** How much of each partition is read when a request is followed. */

import { expect, test } from 'vitest'
import { shareOf } from '#operations/follow/follow-records.ts'

test('what small partitions leave goes to large ones, and all together stay below the bound', () => {
  expect(shareOf([10, 10], 100)).toBe(100)
  expect(shareOf([], 100)).toBe(100)
  expect(shareOf([0, 0, 1_000], 100)).toBe(100)
  expect(shareOf([10, 1_000, 1_000], 100)).toBe(45)
  const sizes = [3, 500, 20, 0, 77, 90]
  const share = shareOf(sizes, 200)
  expect(sizes.reduce((sum, size) => sum + Math.min(size, share), 0)).toBeLessThanOrEqual(200)
})
