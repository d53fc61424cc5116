/** The ring of event ids remembers the last ones, exactly, and forgets the oldest first. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { EventIdRing } from '#runtime/consume/event-id-ring.ts'
import { ringIdsMax } from '#runtime/consume/limits.ts'

describe('the ring of event ids', () => {
  test('answers as a plain list of the last ids would', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat({ max: 60 }), { maxLength: 600 }),
        fc.integer({ min: 1, max: 40 }),
        (ids, max) => {
          const ring = new EventIdRing(max)
          const last: string[] = []
          for (const id of ids.map((n) => `event-${n}`)) {
            const fresh = !last.includes(id)
            expect(ring.add(Buffer.from(id))).toBe(fresh)
            if (fresh) last.push(id)
            if (last.length > max) last.shift()
          }
        },
      ),
    )
  })

  test('holds 65,536 ids and no more, however many pass', () => {
    const ring = new EventIdRing()
    const total = ringIdsMax * 3
    for (let n = 0; n < total; n++)
      if (!ring.add(Buffer.from(`id-${n}`))) throw new Error(`${n} was taken for a repeat`)
    for (let n = total - ringIdsMax; n < total; n++)
      if (ring.add(Buffer.from(`id-${n}`))) throw new Error(`${n} was forgotten`)
    expect(ring.add(Buffer.from(`id-${total - ringIdsMax - 1}`))).toBe(true)
  })
})
