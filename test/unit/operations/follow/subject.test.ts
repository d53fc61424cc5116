/** Ids that hold the time when they were made. */

import { expect, test } from 'vitest'
import { timeIn } from '#operations/follow/subject.ts'

test('a UUID of version 7 and a ULID say when they were made, other ids do not', () => {
  expect(timeIn('01932b3f-7b1c-7c3a-9d51-0f2f6f0f9a11')).toBe(0x01932b3f7b1c)
  expect(timeIn('01ARZ3NDEKTSV4RRFFQ69G5FAV')).toBe(1_469_922_850_259)
  for (const id of ['550e8400-e29b-41d4-a716-446655440000', 'mine', 'run_0', ''])
    expect(timeIn(id)).toBe(null)
})
