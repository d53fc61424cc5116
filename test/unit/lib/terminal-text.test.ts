/** Texts of others on a terminal. */

import { expect, it } from 'vitest'
import { indented, keepingLines, oneLine, visibleJson } from '#lib/terminal-text.ts'

const unsafe = [
  ...Array.from({ length: 0x20 }, (_, code) => code),
  ...Array.from({ length: 0x21 }, (_, n) => 0x7f + n),
  ...[0x61c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e],
  ...[0x2066, 0x2067, 0x2068, 0x2069],
].map((code) => String.fromCharCode(code))

it('shows each control, bidi control and line break of a value as an escape', () => {
  for (const one of unsafe) expect(oneLine(`a${one}b`)).toMatch(/^a\\(x[0-9a-f]{2}|u[0-9a-f]{4}|[nrt])b$/)
  expect(oneLine('\x1b]52;c;aGk=\x07 \x9b2J \u202e\n\r\t\u2028')).toBe(
    '\\x1b]52;c;aGk=\\x07 \\x9b2J \\u202e\\n\\r\\t\\u2028',
  )
})

it('leaves all other text as it is', () => {
  const text = 'Zoë 日本語 עברית 👩‍🚀 C:\\new "a" \u00a0\u200b'
  expect([oneLine(text), indented(text), keepingLines(text)]).toEqual([text, text, text])
  expect(visibleJson(JSON.stringify(text))).toBe(JSON.stringify(text))
})

it('indents each further line of a text, whatever ends it', () => {
  expect(indented('one\ntwo\r\n\tthree\rfour\u2029five\x1b[A')).toBe(
    'one\n  two\n  \tthree\\rfour\\u2029five\\x1b[A',
  )
  expect(indented('one\ntwo', '      ')).toBe('one\n      two')
})

it('keeps JSON the same to who parses it', () => {
  const value = { [unsafe.join('')]: ['a\u202eb', { c: 'd\x9b2J' }] }
  for (const indent of [0, 2]) {
    const shown = visibleJson(JSON.stringify(value, null, indent))
    expect(JSON.parse(shown)).toEqual(value)
    for (const one of unsafe) if (one !== '\n') expect(shown).not.toContain(one)
  }
})
