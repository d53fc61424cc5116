/** How far work may be ahead of its commits, and when the next commit presses. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Headroom } from '#runtime/consumer/commit-budget.ts'
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

test('while a commit is under way what it carries does not press for another one, but still holds work back', () => {
  const headroom = headroomOf(uncommittedMs)
  const [pressing] = presses(headroom)
  headroom.told()
  expect([headroom.dwindling, headroom.used]).toEqual([false, true])
  for (let n = 1; n < pressing; n++) headroom.settled()
  expect(headroom.dwindling).toBe(false)
  headroom.settled()
  expect(headroom.dwindling).toBe(true)
})
