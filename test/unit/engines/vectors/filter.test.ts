/** Filters: the words of a payload and the reading of a payload say the same, whatever the payload. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compileFilter, filterTokens, payloadTokens, tokensMax, wideToken } from '#engines/vectors/filter.ts'
import type { Filter, Payload } from '#engines/vectors/port.ts'
import { propertyRuns } from '../../../support/property-runs.ts'

const key = fc.constantFrom('a', 'b', '', 'a.b', '.', '__proto__', 'constructor', 'length', '0')
const scalar = fc.constantFrom(0, 1, -1, 1.5, '1', '', 'x', "x' OR 1=1", '\0', true, false, 'true', null)
const { value: anyValue } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.array(fc.tuple(key, tie('value')), { maxLength: 3 }).map(asObject),
  ),
}))
const payloads = fc.array(fc.tuple(key, anyValue), { maxLength: 4 }).map(asObject)
const conditions = fc.array(
  fc.record({
    key: fc.array(key, { minLength: 1, maxLength: 3 }).map((path) => path.join('.')),
    value: scalar.filter((value) => value !== null),
  }),
  { maxLength: 3 },
)

/** Through JSON text, which makes `__proto__` an own key. */
function asObject(entries: [string, unknown][]): Payload {
  const members = entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`)
  return JSON.parse(`{${members.join(',')}}`) as Payload
}

type List = { key: string; value: string | number | boolean }[]

function filterOf(must: List, mustNot: List): Filter {
  const conditions = (list: List) => list.map(({ key, value }) => ({ key, match: { value } }))
  return { must: conditions(must), must_not: conditions(mustNot) }
}

describe('filters', () => {
  test('a payload matches exactly when it has every word of the filter and none that it must not have', () => {
    fc.assert(
      fc.property(payloads, conditions, conditions, (payload, must, mustNot) => {
        const filter = filterOf(must as List, mustNot as List)
        const words = new Set(payloadTokens(payload))
        const { all, none } = filterTokens(filter)
        const hasThem = all.every((word) => words.has(word)) && !none.some((word) => words.has(word))
        expect(hasThem).toBe(compileFilter(filter)(payload))
      }),
      { numRuns: propertyRuns(3000) },
    )
  })

  test('too many values make one word that replaces all of them', () => {
    const many = { list: Array.from({ length: tokensMax + 1 }, (_, i) => i) }
    expect(payloadTokens(many)).toEqual([wideToken])
    expect(payloadTokens({ list: many.list.slice(1) }).length).toBe(tokensMax)
    expect(payloadTokens(many, Number.POSITIVE_INFINITY).length).toBe(tokensMax + 1)
  })

  test('words are short and need no quoting', () => {
    for (const word of payloadTokens({ "'; drop": "')", ключ: '值' })) expect(word).toMatch(/^[\w-]{16}$/)
  })
})
