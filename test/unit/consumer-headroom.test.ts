/** How far work may be ahead of its commits, and when the next commit presses. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Headroom } from '#runtime/consumer/headroom.ts'
import { Lane } from '#runtime/consumer/lane.ts'
import { uncommittedMs } from '#runtime/consumer/limits.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

/** Units of 1 ms, one at a time. */
function headroomOf(commitMs: number): Headroom {
  const headroom = new Headroom({ concurrency: () => 1, most: 4_096 })
  for (let n = 0; n < 200; n++) headroom.took(1)
  for (let n = 0; n < 50; n++) {
    headroom.told()
    vi.advanceTimersByTime(commitMs)
    headroom.committed()
  }
  return headroom
}

/** Units that are settled when a commit presses, and when work has to wait. */
function presses(headroom: Headroom): [dwindling: number, used: number] {
  let settled = 0
  for (; !headroom.dwindling; settled++) headroom.settled()
  const dwindling = settled
  for (; !headroom.used; settled++) headroom.settled()
  return [dwindling, settled]
}

test('slow commits press at half, quick ones when twice their time is left', () => {
  expect(presses(headroomOf(uncommittedMs))).toEqual([uncommittedMs / 2, uncommittedMs])
  expect(presses(headroomOf(2))).toEqual([uncommittedMs - 4, uncommittedMs])
  expect(presses(headroomOf(0))).toEqual([uncommittedMs, uncommittedMs])
})

test('what a lane has left behind points at nothing: it would keep alive all that follows', () => {
  const entry = (offset: number) => ({ offset, bytes: 0, record: null, next: null })
  const first = entry(1)
  const lane = new Lane('a', first)
  lane.push(entry(2))
  expect(lane.shift()).toBe(true)
  expect([lane.head.offset, first.next]).toEqual([2, null])
})
