/** Long reads follow each other, and leave as much time as they took. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createOneByOne } from '#runtime/http/answers.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

function recorder() {
  const run = createOneByOne()
  const seen: string[] = []
  const work = (name: string, ms: number) =>
    run(async () => {
      seen.push(`${name} begins at ${Math.round(performance.now() - begun)}`)
      await new Promise((resolve) => setTimeout(resolve, ms))
      return name
    })
  const begun = performance.now()
  return { seen, work }
}

test('one begins when the one before has ended, and has rested as long as it took', async () => {
  const { seen, work } = recorder()
  const all = Promise.all([work('a', 10), work('b', 5), work('c', 1)])
  await vi.advanceTimersByTimeAsync(100)
  expect(await all).toEqual(['a', 'b', 'c'])
  expect(seen).toEqual(['a begins at 0', 'b begins at 20', 'c begins at 30'])
})

test('nobody rests where nobody waits', async () => {
  const { seen, work } = recorder()
  const one = work('a', 10)
  await vi.advanceTimersByTimeAsync(10)
  await one
  const two = work('b', 10)
  await vi.advanceTimersByTimeAsync(10)
  await two
  expect(seen).toEqual(['a begins at 0', 'b begins at 10'])
})

test('what fails says so to its own caller alone, and the next one begins', async () => {
  const run = createOneByOne()
  const failed = run(() => Promise.reject(new Error('no rows')))
  const next = run(async () => 'rows')
  await expect(failed).rejects.toThrow('no rows')
  await vi.advanceTimersByTimeAsync(10)
  expect(await next).toBe('rows')
})
