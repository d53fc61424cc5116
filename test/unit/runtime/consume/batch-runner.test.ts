/** What a batch at work keeps in memory while its call waits. */

import { expect, test, vi } from 'vitest'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { BatchRunner } from '#runtime/consume/batch-runner.ts'
import type { Partition } from '#runtime/consume/partition.ts'
import type { Decode } from '#runtime/consume/partition-host.ts'
import type { Shares } from '#runtime/consume/record-buffer.ts'
import { RecordBuffer } from '#runtime/consume/record-buffer.ts'
import type { BatchOptions } from '#runtime/consume/types.ts'
import { eventually } from '../../../support/eventually.ts'

/** A runner whose handler never answers, at work on records of 1,000 bytes of one block. */
async function atWork(records: number, block: ArrayBuffer) {
  const stored = Array.from({ length: records }, (_, offset): StoredRecord => {
    const value = Buffer.from(block, offset * 1_000, 1_000)
    return { partition: 0, offset, timestamp: 0, key: null, value, headers: {} }
  })
  const buffer = new RecordBuffer({ bytesMax: () => 10_000_000, recordsMax: 2_048, pause() {}, resume() {} })
  buffer.push(stored)
  const host = {
    id: 0,
    position: 0,
    buffer,
    resumeState: { classify: () => 'work', takeAttempts: () => ({ count: 0 }) },
    guard: { mustRunIsolated: () => false },
    ending: new AbortController().signal,
    gone: new AbortController().signal,
    open: () => true,
    whenMayCall: async () => true,
    group: { calls: { run: () => new Promise(() => {}) } },
  } as unknown as Partition
  const decode = vi.fn((record: StoredRecord) => ({ message: { key: '', value: record.value } }))
  const options = { batchRecordsMax: 100, batchBytesMax: 1_000_000 } as BatchOptions<never>
  const runner = new BatchRunner(host, options, decode as unknown as Decode<never>)
  runner.pump()
  await eventually('the call is under way', () => runner.inFlight() === 1)
  function tick(): void {
    const shares: Shares = new Map()
    runner.addShares(shares)
    runner.copyOut(shares)
  }
  return { decode, tick }
}

test('records are copied out of a block that hardly anything else needs, once they have waited', async () => {
  const { decode, tick } = await atWork(3, new ArrayBuffer(100_000))
  tick()
  expect(decode).toHaveBeenCalledTimes(3)
  tick()
  expect(decode).toHaveBeenCalledTimes(6)
  expect(decode.mock.calls.slice(3).map(([record]) => record.value!.buffer.byteLength)).toEqual([
    1_000, 1_000, 1_000,
  ])
  tick()
  expect(decode).toHaveBeenCalledTimes(6)
})

test('a block that they need most of is kept: copies would take as much', async () => {
  const { decode, tick } = await atWork(60, new ArrayBuffer(100_000))
  for (let n = 0; n < 3; n++) tick()
  expect(decode).toHaveBeenCalledTimes(60)
})
