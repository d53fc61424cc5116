/** Items in the order of their offsets; the cost is counted in items visited. */

import { expect, test } from 'vitest'
import { createByOffset } from '#services/vectors/read/operations/progress.ts'

let looks = 0
const item = (offset: number, name = '') => ({
  name,
  get offset() {
    looks++
    return offset
  },
})

function looksDuring(work: () => unknown): number {
  const before = looks
  work()
  return looks - before
}

test('a step that reaches nothing looks at one item, however many wait', () => {
  const items = createByOffset<ReturnType<typeof item>>()
  for (let n = 0; n < 10_000; n++) items.add(item(1_000 + n))
  expect(looksDuring(() => items.takeThrough(999))).toBeLessThan(3)
})

test('a step looks at few more than what it takes, in any order of arrival', () => {
  const items = createByOffset<ReturnType<typeof item>>()
  for (const offset of [5, 1, 4, 4, 9]) items.add(item(offset))
  for (let n = 0; n < 10_000; n++) items.add(item(1_000 + n))
  let taken: number[] = []
  const visited = looksDuring(() => {
    taken = items.takeThrough(5).map(({ offset }) => offset)
  })
  expect(taken).toEqual([1, 4, 4, 5])
  expect(visited).toBeLessThan(30)
  expect(items.takeThrough(9).map(({ offset }) => offset)).toEqual([9])
})

test('removes one item and no other of its offset, and looks at few for it', () => {
  const items = createByOffset<ReturnType<typeof item>>()
  const [a, b, gone] = [item(7, 'a'), item(7, 'b'), item(7, 'gone')]
  for (const one of [a, b]) items.add(one)
  for (let n = 0; n < 10_000; n++) items.add(item(1_000 + n))
  expect(looksDuring(() => items.remove(gone))).toBeLessThan(30)
  expect(looksDuring(() => items.remove(a))).toBeLessThan(30)
  expect(items.takeThrough(7)).toEqual([b])
})
