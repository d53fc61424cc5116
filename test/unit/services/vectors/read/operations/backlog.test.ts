/** How much of an agent may be accepted and not applied yet. */

import { expect, test } from 'vitest'
import type { AppError } from '#lib/errors.ts'
import { backlogPointsMax, createBacklog } from '#services/vectors/read/operations/operations.ts'

function refusal(call: () => void): AppError | undefined {
  try {
    call()
  } catch (error) {
    return error as AppError
  }
  return undefined
}

/** A backlog over progress that the test moves. */
function backlogAt() {
  let applied: (partition: number, through: number) => void = () => {}
  const through = new Map<number, number>()
  let now = 0
  const progress = {
    appliedThrough: (partition: number) => through.get(partition) ?? -1,
    onApplied: (listener: typeof applied) => {
      applied = listener
    },
  }
  const backlog = createBacklog(progress, () => now)
  return {
    backlog,
    pass(ms: number) {
      now += ms
    },
    apply(partition: number, offset: number) {
      through.set(partition, offset)
      applied(partition, offset)
    },
  }
}

const positions = (partition: number, from: number, count: number) =>
  Array.from({ length: count }, (_, n) => ({ partition, offset: from + n }))

test('more than 20,000 points that are not applied are refused with a wait from the measured rate', () => {
  const { backlog, apply, pass } = backlogAt()
  for (let n = 0; n < 200; n++) backlog.reserve('whale', 100).accepted(positions(0, n * 100, 100))
  backlog.reserve('whale', 1_000).accepted(positions(1, 0, 1_000))
  expect(backlog.points('whale')).toBe(backlogPointsMax + 1_000)
  expect(refusal(() => backlog.reserve('whale', 1))).toMatchObject({ code: 'backlog_full', statusCode: 429 })
  backlog.reserve('pulse', 1).release()
  apply(0, 299)
  pass(1_000)
  apply(0, 499)
  // 500 points in the last second, and 500 too many.
  expect(refusal(() => backlog.reserve('whale', 1))?.retryAfter).toBeCloseTo(1)
  apply(0, 999)
  backlog.reserve('whale', 1)
})

test('points that the log refused are released once, and points applied before their acceptance never count', () => {
  const { backlog, apply } = backlogAt()
  const failed = backlog.reserve('whale', 10)
  failed.release()
  failed.release()
  expect(backlog.points('whale')).toBe(0)
  apply(3, 50)
  const quick = backlog.reserve('whale', 2)
  quick.accepted(positions(3, 49, 2))
  quick.release()
  expect(backlog.points('whale')).toBe(0)
})

test('a request that turns out to write fewer points than it reserved gives the others back', () => {
  const { backlog, apply } = backlogAt()
  backlog.reserve('whale', 100).accepted(positions(0, 0, 3))
  expect(backlog.points('whale')).toBe(3)
  apply(0, 2)
  expect(backlog.points('whale')).toBe(0)
  backlog.reserve('whale', 100).accepted([])
  expect(backlog.points('whale')).toBe(0)
})
