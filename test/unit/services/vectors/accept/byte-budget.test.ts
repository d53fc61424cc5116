/** How many bytes of upserts may arrive at the same time. */

import { expect, test } from 'vitest'
import { createByteBudget, upsertBodyBytesMax } from '#services/vectors/accept/byte-budget.ts'

const overloaded = expect.objectContaining({ code: 'overloaded', retryAfter: 1 })

test('an agent holds at most two of the largest bodies, and takes nothing from others', () => {
  const budget = createByteBudget()
  const first = budget.begin('greedy')
  first.arrived(upsertBodyBytesMax)
  budget.begin('greedy').arrived(upsertBodyBytesMax)
  const next = budget.begin('greedy')
  expect(() => next.arrived(1)).toThrowError(overloaded)
  next.end()
  budget.begin('other').arrived(upsertBodyBytesMax)
  first.end()
  first.end()
  budget.begin('greedy').arrived(upsertBodyBytesMax)
  expect(() => budget.begin('greedy').arrived(1)).toThrowError(overloaded)
})

test('all agents together hold at most eight', () => {
  const budget = createByteBudget()
  const uploads = Array.from({ length: 8 }, (_, n) => budget.begin(`agent-${n}`))
  for (const upload of uploads) upload.arrived(upsertBodyBytesMax)
  expect(() => budget.begin('late').arrived(1)).toThrowError(overloaded)
  uploads[0]!.end()
  budget.begin('late').arrived(upsertBodyBytesMax)
})

test('uploads that only begin hold nothing', () => {
  const budget = createByteBudget()
  for (let n = 0; n < 1_000; n++) budget.begin('idle').arrived(1)
  budget.begin('other').arrived(upsertBodyBytesMax)
})
