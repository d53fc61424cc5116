/** Writes of many runs go together, and the fault of one is not that of the others. */

import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { createTogether } from '#services/runs/dispatch/dispatcher.ts'

function writer(fault?: (items: number[]) => Error | undefined) {
  const written: number[][] = []
  const write = async (items: number[]) => {
    written.push(items)
    await new Promise((resolve) => setTimeout(resolve, 1))
    const error = fault?.(items)
    if (error) throw error
    return items.map((item) => item * 2)
  }
  const together = createTogether(write, 1, 4)
  return { together, written }
}

test('the first goes at once, the others together, in order, as many as a statement takes', async () => {
  const { together, written } = writer()
  const results = await Promise.all([1, 2, 3, 4, 5, 6, 7].map((item) => together(item)))
  expect(results).toEqual([2, 4, 6, 8, 10, 12, 14])
  expect(written).toEqual([[1], [2, 3, 4, 5], [6, 7]])
})

test('one that is at fault fails alone', async () => {
  const { together, written } = writer((items) => (items.includes(3) ? new Error('three') : undefined))
  const results = await Promise.allSettled([1, 2, 3, 4].map((item) => together(item)))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
  expect(written).toEqual([[1], [2, 3, 4], [2], [3], [4]])
})

test('where the database is away all fail at once, and later ones are tried', async () => {
  let away = true
  const { together, written } = writer(() =>
    away ? new AppError('relational_engine_unavailable', 'away') : undefined,
  )
  const results = await Promise.allSettled([1, 2, 3].map((item) => together(item)))
  expect(results.every(({ status }) => status === 'rejected')).toBe(true)
  expect(written).toEqual([[1], [2, 3]])
  away = false
  expect(await together(4)).toBe(8)
})
