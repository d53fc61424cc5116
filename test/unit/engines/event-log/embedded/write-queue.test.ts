/** The writing thread gives blocks back, and memory holds one only while a reader uses it. */

import { expect, test } from 'vitest'
import type { PartitionState, Topic } from '#engines/event-log/embedded/topics.ts'
import { createWriteQueue } from '#engines/event-log/embedded/write-queue.ts'
import type { StoredRecord } from '#engines/event-log/port.ts'

function open() {
  const blocks: ArrayBuffer[] = []
  const spec = { name: 'posts', recordBytesMax: 100_000 } as Topic['spec']
  const topic: Topic = { spec, partitions: [], watchers: new Set() }
  const state: PartitionState = {
    id: 1,
    topic,
    partition: 0,
    start: 0,
    end: 0,
    gone: false,
    readers: new Set(),
  }
  const queue = createWriteQueue({
    async write(batch) {
      // As on the way to the thread and back.
      const block = structuredClone(batch.block, { transfer: [batch.block] })
      blocks.push(block)
      return { firsts: batch.appends.map(() => state.end), block }
    },
    wrote() {},
    clock: () => 7,
  })
  const append = (text: string) =>
    queue.append(state, [{ key: null, value: Buffer.from(text) }], { timeoutMs: 1_000, holder: 0 })
  return { state, append, blocks }
}

test('readers get records of the block that came back', async () => {
  const { state, append } = open()
  const seen: StoredRecord[] = []
  state.readers.add({ appended: (_first, _count, take) => seen.push(...take!()), changed() {} })
  await append('one')
  await append('two')
  expect(seen.map(({ offset, value, timestamp }) => [offset, value!.toString(), timestamp])).toEqual([
    [0, 'one', 7],
    [1, 'two', 7],
  ])
})

test('the memory of a block that no reader takes is given back at once', async () => {
  const { state, append, blocks } = open()
  state.readers.add({ appended() {}, changed() {} })
  await append('one')
  expect(blocks[0]!.byteLength).toBe(0)
})
