/** Turns at something scarce: a circle of callers, with bounds, rests and patience. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createTurns } from '#lib/turns.ts'

// Turns that a test leaves waiting end with its clock, not a minute later in another file.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

const late = () => new Error('late')
const nextTick = () => new Promise((resolve) => setImmediate(resolve))

function recorder(options: { atOnce: number; perCaller: number; waitingMax?: number }) {
  const turns = createTurns({ waitingMax: 100, ...options })
  const started: string[] = []
  const open: (() => void)[] = []
  const take = (caller: string, name: string) =>
    turns.take(caller, 60_000, late, () => {
      started.push(name)
      return new Promise<string>((resolve) => open.push(() => resolve(name)))
    })
  async function endNext(): Promise<void> {
    open.shift()!()
    await nextTick()
  }
  return { turns, started, take, endNext }
}

test('callers follow each other in a circle, however much one has asked for before', async () => {
  const { started, take, endNext } = recorder({ atOnce: 1, perCaller: 1 })
  for (const name of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) void take(name[0]!, name)
  for (let n = 0; n < 5; n++) await endNext()
  expect(started).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2'])
})

test('one caller never has more than its share, and free places go to the others', async () => {
  const { started, take, endNext } = recorder({ atOnce: 3, perCaller: 2 })
  for (const name of ['a1', 'a2', 'a3', 'b1', 'b2']) void take(name[0]!, name)
  expect(started).toEqual(['a1', 'a2', 'b1'])
  await endNext()
  expect(started.slice(3)).toEqual(['a3'])
})

test('a caller that rests gets no turn, the others do', async () => {
  const { turns, started, take, endNext } = recorder({ atOnce: 1, perCaller: 1 })
  turns.rest('a', 1_000)
  void take('a', 'a1')
  void take('b', 'b1')
  await endNext()
  expect(started).toEqual(['b1'])
  vi.advanceTimersByTime(1_000)
  expect(started).toEqual(['b1', 'a1'])
})

test('a rest that begins while another lasts ends when the later one does', () => {
  const { turns, started, take } = recorder({ atOnce: 1, perCaller: 1 })
  turns.rest('a', 1_000)
  vi.advanceTimersByTime(900)
  turns.rest('a', 1_000)
  void take('a', 'a1')
  vi.advanceTimersByTime(900)
  expect(started).toEqual([])
  vi.advanceTimersByTime(100)
  expect(started).toEqual(['a1'])
})

test('one caller does not fill the queue', async () => {
  const { started, take, endNext } = recorder({ atOnce: 1, perCaller: 1, waitingMax: 8 })
  for (const name of ['a1', 'a2', 'a3']) void take('a', name)
  await expect(take('a', 'a4')).rejects.toMatchObject({
    code: 'overloaded',
    retryAfter: 1,
    message: expect.stringMatching(/of your calls/),
  })
  void take('b', 'b1')
  await endNext()
  await endNext()
  expect(started).toEqual(['a1', 'a2', 'b1'])
})

test('who waits too long is refused and never runs; a fault of one is no matter of the next', async () => {
  const turns = createTurns({ atOnce: 1, perCaller: 1, waitingMax: 1 })
  const { promise, reject } = Promise.withResolvers<void>()
  const first = turns.take('a', 1_000, late, () => promise)
  let ran = false
  const second = turns.take('b', 5, late, async () => {
    ran = true
  })
  await expect(turns.take('c', 5, late, async () => {})).rejects.toMatchObject({ code: 'overloaded' })
  vi.advanceTimersByTime(5)
  await expect(second).rejects.toThrow('late')
  reject(new Error('broken'))
  await expect(first).rejects.toThrow('broken')
  await expect(turns.take('d', 1_000, late, async () => 'fine')).resolves.toBe('fine')
  expect(ran).toBe(false)
})

test('a heavy piece counts for several, is not passed by lighter ones, and runs alone where it is too heavy', async () => {
  const turns = createTurns({ atOnce: 4, perCaller: 3, waitingMax: 100 })
  const started: string[] = []
  const ends = new Map<string, () => void>()
  const take = (name: string, weight: number) =>
    turns.take(
      name[0]!,
      60_000,
      late,
      () => {
        started.push(name)
        return new Promise<void>((resolve) => ends.set(name, resolve))
      },
      weight,
    )
  const end = async (name: string) => {
    ends.get(name)!()
    await nextTick()
  }
  for (const [name, weight] of [
    ['a1', 2],
    ['b1', 3],
    ['c1', 1],
    ['d1', 9],
  ] as const)
    void take(name, weight)
  expect(started).toEqual(['a1'])
  await end('a1')
  expect(started).toEqual(['a1', 'b1', 'c1'])
  await end('b1')
  expect(started).toHaveLength(3)
  await end('c1')
  expect(started).toEqual(['a1', 'b1', 'c1', 'd1'])
})
