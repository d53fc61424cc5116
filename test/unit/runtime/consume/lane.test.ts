/** The records of one lane that wait. */

import { expect, test } from 'vitest'
import { Lane } from '#runtime/consume/lane.ts'

test('what a lane has left behind points at nothing: it would keep alive all that follows', () => {
  const entry = (offset: number) => ({ offset, timestamp: 0, bytes: 0, record: null, next: null })
  const first = entry(1)
  const lane = new Lane('a', first)
  lane.push(entry(2))
  expect(lane.shift()).toBe(true)
  expect([lane.head.offset, first.next]).toEqual([2, null])
})
