/** The order of hits. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compareHits, compareIds, cosine, createBest, dot, norm } from '#engines/vectors/score.ts'
import { propertyRuns } from '../../../support/property-runs.ts'

const ids = fc.string({
  unit: fc.constantFrom('a', 'b', 'é', '\ud7ff', '\ue000', '\uffee', '😀', '\u{10ffff}'),
  maxLength: 6,
})

describe('the order of hits', () => {
  test('ids compare code point by code point, as their UTF-8 bytes do', () => {
    fc.assert(
      fc.property(ids, ids, (a, b) => {
        expect(Math.sign(compareIds(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)))
      }),
      { numRuns: propertyRuns(2000) },
    )
  })

  test('the best of a stream are the first of all of them sorted', () => {
    const hit = fc.record({ id: ids, score: fc.integer({ min: 0, max: 5 }) })
    fc.assert(
      fc.property(fc.array(hit, { maxLength: 60 }), fc.integer({ min: 1, max: 70 }), (hits, limit) => {
        const best = createBest<{ id: string; score: number }>(limit, compareHits)
        for (const each of hits) if (best.wants(each.score)) best.add(each)
        expect(best.take()).toEqual([...hits].sort(compareHits).slice(0, limit))
      }),
    )
  })

  test('a cosine never leaves -1..1, and a vector has none with zero', () => {
    const vector = Float32Array.from({ length: 7 }, (_, i) => i + 0.1)
    expect(cosine(dot(vector, 0, vector, 7), norm(vector) ** 2)).toBeCloseTo(1, 12)
    expect(cosine(1.0000001, 1)).toBe(1)
    expect(cosine(-1.0000001, 1)).toBe(-1)
    expect(cosine(0, 0)).toBe(0)
  })
})
