/** JSON of one line stays one line to every reader, and means the same. */

import { expect, it } from 'vitest'
import { withoutSeparators } from '#lib/terminal-text.ts'

it('escapes line and paragraph separators, in names and values', () => {
  const value = { 'a\u2028': ['b\u2029c', 'd\u2028\u2029'] }
  const line = withoutSeparators(JSON.stringify(value))
  expect(line).toBe(String.raw`{"a\u2028":["b\u2029c","d\u2028\u2029"]}`)
  expect(JSON.parse(line)).toEqual(value)
})

it('leaves all other JSON as it is', () => {
  const json = JSON.stringify({ a: 'ü 日本\n\r\u0085\u2027\u202a\\u2028', n: [1e3, null] })
  expect(withoutSeparators(json)).toBe(json)
})
