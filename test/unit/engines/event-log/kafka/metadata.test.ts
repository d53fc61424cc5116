/** When brokers are asked again for what they said before, and when what they say now is not yet believed. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createKept } from '#engines/event-log/kafka/metadata.ts'
import { eventually } from '../../../../support/eventually.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

/** A cluster that has some names; each question is kept. */
function openCluster(...names: string[]) {
  const state = { names: new Set(names), asked: [] as string[][], away: false }
  const kept = createKept(async (wanted) => {
    state.asked.push(wanted)
    if (state.away) throw new Error('no answer')
    return new Map(wanted.filter((name) => state.names.has(name)).map((name) => [name, state.asked.length]))
  })
  return { state, kept }
}

test('a kept answer is refreshed after five seconds, together with all others, and callers do not wait', async () => {
  const { state, kept } = openCluster('a', 'b', 'c')
  await Promise.all(['a', 'b', 'c'].map(kept.get))
  expect(await Promise.all(['a', 'b'].map(kept.get))).toEqual([1, 2])
  expect(state.asked).toEqual([['a'], ['b'], ['c']])
  vi.advanceTimersByTime(6_000)
  expect(await kept.get('a')).toBe(1)
  expect(state.asked.at(-1)).toEqual(['a', 'b'])
  await eventually('it was asked again', async () => (await kept.get('b')) === 4)
})

test('while nobody answers, a kept answer serves for half a minute', async () => {
  const { state, kept } = openCluster('a')
  await kept.get('a')
  state.away = true
  vi.advanceTimersByTime(29_000)
  expect(await kept.get('a')).toBe(1)
  vi.advanceTimersByTime(2_000)
  await expect(kept.get('a')).rejects.toThrow('no answer')
})

test('a dropped answer is fetched at the next use', async () => {
  const { state, kept } = openCluster('a')
  await kept.get('a')
  kept.forget('a')
  expect(state.asked).toHaveLength(1)
  expect(await kept.get('a')).toBe(2)
  expect(await kept.now('a')).toBe(3)
})

test('a name that is gone is said to be, soon after it was last seen, and at once when it was removed here', async () => {
  const { state, kept } = openCluster('a')
  await kept.get('a')
  state.names.delete('a')
  await expect(kept.now('a')).rejects.toThrow('does not know a yet')
  vi.advanceTimersByTime(4_000)
  await expect(kept.now('a')).rejects.toThrow('does not know a yet')
  vi.advanceTimersByTime(2_000)
  expect(await kept.now('a')).toBeNull()
  state.names.add('a')
  await kept.get('a')
  state.names.delete('a')
  kept.remove('a')
  expect(await kept.get('a')).toBeNull()
})

test('a name that was never seen is not waited for', async () => {
  const { state, kept } = openCluster()
  expect(await kept.get('a')).toBeNull()
  expect(state.asked).toEqual([['a']])
})
