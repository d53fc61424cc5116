/** Memory is given back where it has one owner, and only there. */

import { expect, test } from 'vitest'
import { detach } from '#lib/giving-way.ts'

test('bytes with memory of their own are gone; pieces of something larger stay', () => {
  const own = Buffer.alloc(10_000, 1)
  detach(own)
  expect(own).toHaveLength(0)
  const piece = Buffer.alloc(10_000, 1).subarray(0, 9_999)
  detach(piece)
  expect(piece).toHaveLength(9_999)
  const pooled = Buffer.from('small')
  detach(pooled)
  expect(pooled.toString()).toBe('small')
  const shared = new Uint8Array(new SharedArrayBuffer(8))
  detach(shared)
  expect(shared).toHaveLength(8)
})
