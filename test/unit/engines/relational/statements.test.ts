/** Names of prepared statements: given at the second use, never to two texts. */

import { expect, test } from 'vitest'
import { createStatementNames } from '#engines/relational/statements.ts'

test('a text has no name at its first use, and keeps its own from the second on', () => {
  const names = createStatementNames()
  expect([names.of('a'), names.of('b')]).toEqual([undefined, undefined])
  const [a, b] = [names.of('a'), names.of('b')]
  expect(a).toMatch(/^s\d+$/)
  expect(b).not.toBe(a)
  expect([names.of('a'), names.of('b')]).toEqual([a, b])
})

test('no name is ever given to a second text, whatever was forgotten', () => {
  const names = createStatementNames()
  const given = new Map<string, string>()
  for (let n = 0; n < 3_000; n++) {
    const text = `text ${n % 700}`
    names.of(text)
    const name = names.of(text)!
    expect(given.get(name) ?? text).toBe(text)
    given.set(name, text)
    if (n % 50 === 0) names.renew(text)
  }
  names.of('a')
  const outlived = names.of('a')
  names.renew('a')
  expect(names.of('a')).not.toBe(outlived)
})
