/** The queue of writes: how much it does before queries get a turn. */

import { expect, onTestFinished, test, vi } from 'vitest'
import type { PointsFile } from '#engines/vectors/embedded/points-file.ts'
import type { Change, Write } from '#engines/vectors/embedded/points-write.ts'
import { createWriteQueue, type WriteTarget } from '#engines/vectors/embedded/write-queue.ts'
import { eventually } from '../../../../support/eventually.ts'

function writesOf(count: number): Write[] {
  const position = { epoch: 1, offset: 1 }
  return Array.from({ length: count }, (_, i) => ({
    id: `p${i}`,
    position,
    payload: null,
    vector: null,
    embedder: null,
    expiresAt: null,
  }))
}

interface Parts {
  indexed(changes: Change[]): void
  written?(): void
  /** When a transaction is on disk. */
  durable?(): Promise<void>
}

function open({ indexed, written, durable = async () => {} }: Parts) {
  const file = { transaction: (work) => ({ result: work(), durable: durable() }) } as Partial<PointsFile>
  const queue = createWriteQueue(file as PointsFile)
  const target: WriteTarget = {
    exists: () => true,
    write(writes) {
      written?.()
      return {
        changes: writes.map((_, n) => ({ n, vector: null, payload: null, before: [], tokens: [] })),
        added: 0,
      }
    },
    committed: () => {},
    index: indexed,
  }
  return { queue, target }
}

test('an index takes few points at a time', async () => {
  const steps: number[] = []
  const { queue, target } = open({ indexed: (changes) => void steps.push(changes.length) })
  await queue.add(target, writesOf(50))
  expect(steps.reduce((sum, step) => sum + step)).toBe(50)
  expect(Math.max(...steps)).toBeLessThan(10)
})

test('while searches keep coming, the thread rests after each slice for four times as long as it took', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const begunMs: number[] = []
  function busy() {
    begunMs.push(performance.now())
    vi.advanceTimersByTime(5)
    queue.searched()
  }
  const { queue, target } = open({ indexed: () => {}, written: busy })
  let written = false
  const adding = queue.add(target, writesOf(24 * 10)).then(() => {
    written = true
  })
  while (!written) {
    await vi.advanceTimersByTimeAsync(1)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await adding
  expect(begunMs).toHaveLength(10)
  for (const [n, at] of begunMs.slice(1).entries()) expect(at - begunMs[n]!).toBeGreaterThanOrEqual(20)
})

test('a write resolves when all of it is on disk; the thread goes on meanwhile', async () => {
  const reached: PromiseWithResolvers<void>[] = []
  let indexed = 0
  const { queue, target } = open({
    indexed(changes) {
      indexed += changes.length
    },
    durable() {
      const one = Promise.withResolvers<void>()
      reached.push(one)
      return one.promise
    },
  })
  const ended: string[] = []
  const first = queue.add(target, writesOf(30)).then(() => ended.push('first resolved'))
  const second = queue.add(target, writesOf(30)).catch(() => ended.push('second rejected'))
  await eventually('both are indexed', () => indexed === 60)
  expect(ended).toEqual([])
  const [one, ...others] = reached
  one!.resolve()
  await new Promise((resolve) => setImmediate(resolve))
  expect(ended).toEqual([])
  for (const each of others.slice(0, -1)) each.resolve()
  await first
  others.at(-1)!.reject(new Error('input/output error'))
  await second
  expect(ended).toEqual(['first resolved', 'second rejected'])
})

test('writes go on between searches that leave the event loop no turn', async () => {
  const { queue, target } = open({ indexed: () => {} })
  let written = false
  let turned = false
  setImmediate(() => {
    turned = true
  })
  void queue.add(target, writesOf(24 * 10)).then(() => {
    written = true
  })
  while (!written && !turned) {
    queue.searched()
    // Ticks run before the event loop turns, as they do between two messages of a port.
    for (let n = 0; n < 1_000 && !written; n++)
      await new Promise<void>((resolve) => process.nextTick(resolve))
  }
  expect([written, turned]).toEqual([true, false])
})

test('a slice added first overtakes pending writes, and is refused once the queue has ended', async () => {
  const order: string[] = []
  const { queue, target } = open({ indexed: () => {}, written: () => void order.push('write') })
  const nothing = { changes: [], added: 0 }
  const first = () => {
    order.push('first')
    return nothing
  }
  const adding = queue.add(target, writesOf(24 * 5))
  const tasks = queue.exclusively(() => void order.push('task'))
  await queue.addFirst(target, first)
  expect(order).toEqual(['first'])
  await Promise.all([adding, tasks])
  expect(order).toEqual(['first', ...Array<string>(5).fill('write'), 'task'])
  await queue.exclusively(() => queue.end())
  await expect(queue.addFirst(target, first)).rejects.toMatchObject({ code: 'shutting_down' })
  expect(queue.quietMs()).toBeGreaterThanOrEqual(0)
})
