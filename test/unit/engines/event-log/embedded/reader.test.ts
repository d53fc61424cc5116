/** One partition's reader against a file that answers when the test says so. */

import { expect, test } from 'vitest'
import { createPartitionReader, type ReaderOptions } from '#engines/event-log/embedded/partition-reader.ts'
import type { Fetched } from '#engines/event-log/embedded/reader-thread.ts'
import { type Batch, packBatches } from '#engines/event-log/embedded/record-tables.ts'
import type { PartitionState } from '#engines/event-log/embedded/topics.ts'
import { eventually } from '#test/support/eventually.ts'
import { range } from '../../../../contract/event-log/world.ts'

/** A partition with records at the given offsets; each fetch brings two of them. */
function openReader(options: { start?: number; offsets: number[] }) {
  const { start = 0, offsets } = options
  const state = {
    id: 1,
    partition: 0,
    start,
    end: offsets.at(-1)! + 1,
    gone: false,
    readers: new Set(),
  } as unknown as PartitionState
  const open: { from: number; answer(kept?: number): void; fail(): void }[] = []
  const received = { offsets: [] as number[], misplaced: [] as unknown[], faults: 0 }
  const fetch: ReaderOptions['fetch'] = (_, from) =>
    new Promise<Fetched>((resolve, reject) => {
      open.push({
        from,
        fail: () => reject(new Error('disk')),
        answer(kept = state.start) {
          const rows = offsets
            .filter((o) => o >= Math.max(from, kept))
            .slice(0, 2)
            .map(
              (first): Batch => ({
                first,
                records: 1,
                timestamp: 0,
                lengths: Int32Array.of(-1, -1, 0),
                bytes: new Uint8Array(0),
              }),
            )
          const none = from < kept
          resolve({
            gone: false,
            start: kept,
            records: none ? 0 : rows.length,
            block: packBatches(none ? [] : rows, none ? 0 : rows.length, 0),
          })
        },
      })
    })
  const reader = createPartitionReader({
    state,
    fetch,
    bytesMax: 1_000,
    records: (records) => void received.offsets.push(...records.map((one) => one.offset)),
    misplaced: (problem) => void received.misplaced.push(problem),
    fault: () => void received.faults++,
  })
  /** Answers whatever is asked until nothing is. */
  async function answerAll(): Promise<void> {
    for (let one = open.shift(); one; one = open.shift()) {
      one.answer()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  return { state, reader, open, received, answerAll }
}

test('a seek drops a read in progress for the old position', async () => {
  const { reader, open, received, answerAll } = openReader({ offsets: range(0, 10) })
  reader.seek(0)
  reader.seek(7)
  open.shift()!.answer()
  await eventually('it asks again', () => open.length === 1)
  expect(open[0]!.from).toBe(7)
  expect(received.offsets).toEqual([])
  await answerAll()
  expect(received.offsets).toEqual([7, 8, 9])
})

test('the next block is asked for while one is delivered, and one more waits during a pause', async () => {
  const { reader, open, received, answerAll } = openReader({ offsets: range(0, 10) })
  reader.seek(0)
  open.shift()!.answer()
  await eventually('the first arrives', () => received.offsets.length === 2)
  expect(open.map((one) => one.from)).toEqual([2])
  reader.pause()
  await answerAll()
  expect(open).toEqual([])
  expect(received.offsets).toEqual([0, 1])
  reader.resume()
  await answerAll()
  expect(received.offsets).toEqual(range(0, 10))
})

test('a start that moved while it was reading is an alarm, not a gap', async () => {
  const { reader, open, received, answerAll, state } = openReader({ offsets: range(0, 10) })
  reader.seek(0)
  open.shift()!.answer(5)
  await eventually('the alarm', () => received.misplaced.length === 1)
  expect(received).toMatchObject({ offsets: [], misplaced: [{ position: 0, start: 5, end: 10 }] })
  expect(reader.position()).toBeNull()
  expect(state.start).toBe(5)
  reader.seek(5)
  await answerAll()
  expect(received.offsets).toEqual(range(5, 10))
})

test('records read before the start moved are delivered before the alarm', async () => {
  const { reader, open, received, state } = openReader({ offsets: range(0, 10) })
  reader.seek(0)
  reader.pause()
  open.shift()!.answer()
  await new Promise((resolve) => setImmediate(resolve))
  state.start = 6
  for (const one of state.readers) one.changed()
  expect(received.misplaced).toEqual([])
  reader.resume()
  expect(received).toMatchObject({ offsets: [0, 1], misplaced: [{ position: 2, start: 6, end: 10 }] })
})

test('holes are passed over, also one that reaches to the end', async () => {
  const { reader, received, answerAll, state } = openReader({ offsets: [0, 3, 9] })
  state.end = 15
  reader.seek(0)
  await answerAll()
  expect(received).toMatchObject({ offsets: [0, 3, 9], misplaced: [] })
  expect(reader.position()).toBe(15)
})

test('a read that fails is a fault, and is repeated', async () => {
  const { reader, open, received, answerAll } = openReader({ offsets: range(0, 3) })
  reader.seek(0)
  open.shift()!.fail()
  await eventually('it asks again', () => open.length === 1)
  expect(received.faults).toBe(1)
  await answerAll()
  expect(received.offsets).toEqual([0, 1, 2])
})

test('nothing arrives after stop, nor after the partition is gone', async () => {
  const { reader, open, received, state } = openReader({ offsets: range(0, 10) })
  reader.seek(0)
  reader.stop()
  open.shift()!.answer()
  await new Promise((resolve) => setImmediate(resolve))
  expect(received.offsets).toEqual([])
  expect(state.readers.size).toBe(0)
  expect(open).toEqual([])
})
