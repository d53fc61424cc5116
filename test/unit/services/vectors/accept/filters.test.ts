/** Filters of requests: those that are taken, and the words for faulty ones. */

import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { readFilter } from '#services/vectors/accept/filters.ts'

const active = { key: 'status', match: { value: 'active' } }

function faultsOf(filter: unknown): string[] {
  try {
    readFilter(filter)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    expect(error.code).toBe('validation_failed')
    return error.errors!.map(({ path, message }) => `${path}: ${message}`)
  }
  throw new Error(`${JSON.stringify(filter)} was taken`)
}

test('filters of every kind are taken as they are', () => {
  const filters = [
    {},
    { must: [] },
    { must: [active], should: [active], must_not: [active] },
    {
      must: [
        { key: 'a.b', match: { any: [1, 'x', true] } },
        { key: '', match: { except: [0] } },
      ],
    },
    {
      must: [
        { key: 'n', range: { gt: 1, lte: 2.5 } },
        { key: 't', range: { gte: '2026-01-31' } },
      ],
    },
    { should: [{ is_empty: { key: 'n' } }, { key: 't', match: { text: 'two words' } }] },
    { must: [{ must: [{ should: [{ must_not: [{ must: [active] }] }] }] }] },
    { must: Array.from({ length: 100 }, () => active) },
  ]
  for (const filter of filters) expect(readFilter(filter)).toEqual(filter)
  expect(readFilter(undefined)).toBeUndefined()
  expect(readFilter(null)).toBeUndefined()
  expect(readFilter({ must: null, should: [{ key: 'n', match: null, range: { gt: 1, lt: null } }] })).toEqual(
    {
      should: [{ key: 'n', range: { gt: 1 } }],
    },
  )
})

test('the faulty part is named by its path, with the rule for it', () => {
  const cases: [unknown, string][] = [
    [[], '/filter: an object ('],
    [{ most: [] }, '/filter/most: is not a known field; did you mean must'],
    [{ must: active }, '/filter/must: a list of conditions'],
    [{ must: ['x'] }, '/filter/must/0: a condition: an object ("x" was sent)'],
    [{ must: [{}] }, '/filter/must/0: a key with either match or range, is_empty, or a filter'],
    [{ must: [{ key: 'a' }] }, '/filter/must/0: a key with either match or range, is_empty, or a filter'],
    [{ must: [{ ...active, range: { gt: 1 } }] }, '/filter/must/0: a key with either match or range'],
    [
      { must: [{ key: 1, match: { value: 1 } }] },
      '/filter/must/0/key: a text: the key of a payload (1 was sent)',
    ],
    [{ must: [{ key: '\ud800', match: { value: 1 } }] }, '/filter/must/0/key: has half of a surrogate pair'],
    [{ must: [{ key: 'a', match: {} }] }, '/filter/must/0/match: exactly one of value, any, except, text'],
    [{ must: [{ key: 'a', match: { value: 1, any: [1] } }] }, '/filter/must/0/match: exactly one of'],
    [{ must: [{ key: 'a', match: { value: null } }] }, '/filter/must/0/match/value: a text, a number'],
    [
      { must: [{ key: 'a', match: { value: Number.POSITIVE_INFINITY } }] },
      '/filter/must/0/match/value: a number that fits',
    ],
    [
      { must: [{ key: 'a', range: { lt: Number.POSITIVE_INFINITY } }] },
      '/filter/must/0/range/lt: a number, or a time',
    ],
    [
      { must: [{ key: 'a', match: { value: [1] } }] },
      '/filter/must/0/match/value: a text, a number or true or false',
    ],
    [
      { must: [{ key: 'a', match: { any: [] } }] },
      '/filter/must/0/match/any: a list of 1 to 1,000 values (0',
    ],
    [{ must: [{ key: 'a', match: { any: [1, null] } }] }, '/filter/must/0/match/any/1: a text, a number'],
    [{ must: [{ key: 'a', match: { text: '!' } }] }, '/filter/must/0/match/text: a text of 1 to 64 words (0'],
    [{ must: [{ key: 'a', range: {} }] }, '/filter/must/0/range: at least one of gt, gte, lt, lte'],
    [{ must: [{ key: 'a', range: { gt: 'now' } }] }, '/filter/must/0/range/gt: a number, or a time such as'],
    [{ must: [{ key: 'a', range: { gt: '2026-02-30' } }] }, '/filter/must/0/range/gt: a number, or a time'],
    [
      { must: [{ key: 'a', range: { gt: 1, lt: '2026-01-01' } }] },
      '/filter/must/0/range: all bounds numbers',
    ],
    [{ must: [{ key: 'a', range: { above: 1 } }] }, '/filter/must/0/range/above: is not a known field'],
    [{ must: [{ is_empty: 'a' }] }, '/filter/must/0/is_empty: an object ("a" was sent)'],
    [{ must: [{ is_empty: { key: 'a' }, key: 'b' }] }, '/filter/must/0/key: is not a known field'],
    [
      { must: [{ must: [{ must: [{ must: [{ must: [{ must: [active] }] }] }] }] }] },
      '/filter/must/0/must/0/must/0/must/0/must/0: filters within filters at most 5 deep',
    ],
    [
      {
        must: Array.from({ length: 60 }, () => active),
        should: [{ must: Array.from({ length: 41 }, () => active) }],
      },
      '/filter: at most 100 conditions (102 was sent)',
    ],
  ]
  for (const [filter, expected] of cases) {
    const [first] = faultsOf(filter)
    expect(first!.slice(0, expected.length)).toBe(expected)
  }
})

test('all faults are named, and not more than an answer may have', () => {
  expect(faultsOf({ must: [{}, { key: 'a', match: { any: [null, active] } }], other: 1 })).toHaveLength(4)
  expect(faultsOf({ must: Array.from({ length: 100 }, () => ({})) }).length).toBeLessThan(50)
})
