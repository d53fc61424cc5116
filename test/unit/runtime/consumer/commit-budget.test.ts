/** How far work may be ahead of its commits, and when the next commit is urgent. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { CommitBudget } from '#runtime/consumer/commit-budget.ts'
import { uncommittedMs } from '#runtime/consumer/limits.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

/** Units of 1 ms, one at a time. */
function budgetOf(commitMs: number): CommitBudget {
  const budget = new CommitBudget({ concurrency: () => 1, most: 4_096 })
  for (let n = 0; n < 200; n++) budget.measure(1)
  for (let n = 0; n < 50; n++) {
    budget.commitBegins()
    vi.advanceTimersByTime(commitMs)
    budget.commitEnded()
  }
  return budget
}

/** Units that are settled when a commit is urgent, and when work has to wait. */
function urgentAt(budget: CommitBudget): [runningLow: number, exhausted: number] {
  let settled = 0
  for (; !budget.runningLow; settled++) budget.unitSettled()
  const runningLow = settled
  for (; !budget.exhausted; settled++) budget.unitSettled()
  return [runningLow, settled]
}

test('slow commits are urgent at half, quick ones when twice their time is left', () => {
  expect(urgentAt(budgetOf(uncommittedMs))).toEqual([uncommittedMs / 2, uncommittedMs])
  expect(urgentAt(budgetOf(2))).toEqual([uncommittedMs - 4, uncommittedMs])
  expect(urgentAt(budgetOf(0))).toEqual([uncommittedMs, uncommittedMs])
})

test('while a commit is under way what it carries is not urgent again, but still holds work back', () => {
  const budget = budgetOf(uncommittedMs)
  const [urgent] = urgentAt(budget)
  budget.commitBegins()
  expect([budget.runningLow, budget.exhausted]).toEqual([false, true])
  for (let n = 1; n < urgent; n++) budget.unitSettled()
  expect(budget.runningLow).toBe(false)
  budget.unitSettled()
  expect(budget.runningLow).toBe(true)
})
