/** Ids from the stock are as random as those from the system: no byte is given twice. */

import { expect, test } from 'vitest'
import { randomHex } from '#lib/random-hex.ts'

test('all are of their length and different, whatever lengths follow each other, over many stocks', () => {
  const lengths = [16, 24, 7, 4_000, 12_288]
  const made = Array.from({ length: 5_000 }, (_, n) => randomHex(lengths[n % lengths.length]!))
  for (const hex of made) expect(hex).toMatch(/^[0-9a-f]+$/)
  expect(made.map(({ length }) => length / 2)).toEqual(made.map((_, n) => lengths[n % lengths.length]))
  // The first seven bytes of each: the same stock read twice would show them again.
  expect(new Set(made.map((hex) => hex.slice(0, 14))).size).toBe(made.length)
})
