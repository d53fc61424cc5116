/** Ids of records, and random ones: all different, whatever lengths and pools. */

import { validate, version } from 'uuid'
import { expect, test } from 'vitest'
import { newEventId, randomHex } from '#lib/ids.ts'

test('ids are UUIDv7, all different, over many pools', () => {
  const ids = new Set(Array.from({ length: 20_000 }, newEventId))
  expect(ids.size).toBe(20_000)
  for (const id of ids) expect(validate(id) && version(id) === 7).toBe(true)
})

test('ids of a later time sort behind earlier ones', async () => {
  const earlier = newEventId()
  await new Promise((resolve) => setTimeout(resolve, 3))
  expect(newEventId() > earlier).toBe(true)
})

test('all are of their length and different, whatever lengths follow each other, over many stocks', () => {
  const lengths = [16, 24, 7, 4_000, 12_288]
  const made = Array.from({ length: 5_000 }, (_, n) => randomHex(lengths[n % lengths.length]!))
  for (const hex of made) expect(hex).toMatch(/^[0-9a-f]+$/)
  expect(made.map(({ length }) => length / 2)).toEqual(made.map((_, n) => lengths[n % lengths.length]))
  // The first seven bytes of each: the same stock read twice would show them again.
  expect(new Set(made.map((hex) => hex.slice(0, 14))).size).toBe(made.length)
})
