/** Memory is given back where it has one owner, and only there. */

import { expect, test } from 'vitest'
import { release } from '#lib/release.ts'

test('bytes with memory of their own are gone; pieces of something larger stay', () => {
  const own = Buffer.alloc(10_000, 1)
  release(own)
  expect(own).toHaveLength(0)
  const piece = Buffer.alloc(10_000, 1).subarray(0, 9_999)
  release(piece)
  expect(piece).toHaveLength(9_999)
  const pooled = Buffer.from('small')
  release(pooled)
  expect(pooled.toString()).toBe('small')
  const shared = new Uint8Array(new SharedArrayBuffer(8))
  release(shared)
  expect(shared).toHaveLength(8)
})
