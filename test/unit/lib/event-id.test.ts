/** The ids of records. */

import { validate, version } from 'uuid'
import { expect, test } from 'vitest'
import { newEventId } from '#lib/event-id.ts'

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
