/** Which writes of partitions share a call of the engine, and what no call waits for. */

import { expect, test } from 'vitest'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { joinApplies } from '#services/vectors/write/handler.ts'
import { eventually } from '#test/support/eventually.ts'

/** An engine whose calls end when the test says so. */
function heldEngine(driver: VectorStore['driver'] = 'qdrant') {
  const calls: { ids: string[]; end: () => void }[] = []
  const apply = joinApplies(
    async (_collection, operations) => {
      const held = Promise.withResolvers<void>()
      calls.push({ ids: operations.map(({ id }) => id), end: held.resolve })
      await held.promise
    },
    1,
    { driver },
  )
  const { signal } = new AbortController()
  const write = (id: string, alone = false, count = 1) => {
    const position = { epoch: 1, offset: 1 }
    const operations = Array.from({ length: count }, (): PointOperation => ({ kind: 'delete', id, position }))
    return apply('notes', operations, { signal, alone })
  }
  return { calls, write }
}

test('requests during a call go together when it ends', async () => {
  const { calls, write } = heldEngine()
  const first = write('a')
  await eventually('the first call has begun', () => calls.length === 1)
  const later = [write('b')]
  await new Promise(setImmediate)
  later.push(write('c'))
  await new Promise(setImmediate)
  expect(calls).toHaveLength(1)
  calls[0]!.end()
  await first
  await eventually('the second call has begun', () => calls.length === 2)
  expect(calls[1]!.ids).toEqual(['b', 'c'])
  calls[1]!.end()
  await Promise.all(later)
})

test('a call that does not end holds no other up, and none that must be alone', async () => {
  const { calls, write } = heldEngine()
  void write('stuck')
  await eventually('it has begun', () => calls.length === 1)
  const alone = write('alone', true)
  expect(calls.map(({ ids }) => ids)).toEqual([['stuck'], ['alone']])
  calls[1]!.end()
  await alone
  const other = write('other')
  await eventually('the other has begun', () => calls.length === 3)
  calls[2]!.end()
  await other
})

test('a thread of this process has work before its call ends, in parts whose partitions go on by themselves', async () => {
  const { calls, write } = heldEngine('embedded')
  const writes = ['a', 'b', 'c'].map((id) => write(id, false, 40))
  await eventually('the calls of one turn have begun', () => calls.length === 2)
  expect(calls.map(({ ids }) => ids.length)).toEqual([80, 40])
  calls[1]!.end()
  await writes[2]
  writes.push(write('d'))
  await eventually('the next one does not wait for the first', () => calls.length === 3)
  for (const { end } of calls) end()
  await Promise.all(writes)
})
