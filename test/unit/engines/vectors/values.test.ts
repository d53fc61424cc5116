/** Texts of payloads as times and as words. */

import { expect, test } from 'vitest'
import { microsOf, wordsOf } from '#engines/vectors/values.ts'

test('ISO dates and times are microseconds, whatever their offset', () => {
  const ms = (text: string) => Date.parse(text) * 1_000
  expect(microsOf('2026-01-31')).toBe(ms('2026-01-31T00:00:00Z'))
  expect(microsOf('2026-01-31T12:30:15Z')).toBe(ms('2026-01-31T12:30:15Z'))
  expect(microsOf('2026-01-31 12:30')).toBe(ms('2026-01-31T12:30:00Z'))
  expect(microsOf('2026-01-31t12:30:15.5+05:30')).toBe(ms('2026-01-31T07:00:15.500Z'))
  expect(microsOf('2026-01-31T12:30:15.123456789-0200')).toBe(ms('2026-01-31T14:30:15.123Z') + 456)
  expect(microsOf('1969-12-31T23:59:59.999999Z')).toBe(-1)
  expect(microsOf('0001-01-01')).toBe(ms('0001-01-01T00:00:00Z'))
  expect(microsOf('2024-02-29')).toBe(ms('2024-02-29'))
})

test('other texts are no times', () => {
  const texts = [
    '',
    '2026',
    '2026-1-1',
    '2026-02-30',
    '2025-02-29',
    '2026-13-01',
    '2026-01-31T24:00:00Z',
    'now',
  ]
  texts.push('2026-01-31T12:60', '2026-01-31Tx', '2026-01-31T12:30:15+25:00', ' 2026-01-31', '٢٠٢٦-01-31')
  for (const text of texts) expect(microsOf(text), text).toBeUndefined()
})

test('words are folded as local search folds them', () => {
  expect(wordsOf("The Harbour-Master's house").whole).toEqual(['the', 'harbour', 'master', 'house'])
  expect(wordsOf('Straße ÉTÉ').whole).toEqual(['strasse', 'ete'])
  expect(wordsOf('fooBar C++')).toEqual({
    whole: ['foobar', 'c++'],
    all: ['foobar', 'foo', 'bar', 'c', 'c++'],
  })
  expect(wordsOf('x x X').whole).toEqual(['x'])
  expect(wordsOf('… !')).toEqual({ whole: [], all: [] })
})
