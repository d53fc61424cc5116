/** Runs consumers with little memory in processes of their own: pending records must not fill it. */

import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { createHarness, testTopic } from './consumer-harness.ts'
import { temporaryFolder } from './temporary.ts'

export type Mode = 'batch' | 'lanes'

const childFile = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const memoryChild = childFile('./consumer-memory-child.ts')
const pinnedChild = childFile('./consumer-pinned-child.ts')
const partitions = 4
const chunkRecords = 1_000

export interface Waiting {
  records: number
  /** Bytes of each record's value. */
  valueBytes: number
  heapMbMax: number
}

/** `records` wait in four partitions; the consumer handles them all within a heap of `heapMbMax`. */
export async function expectBoundedHeap(mode: Mode, { records, valueBytes, heapMbMax }: Waiting) {
  const directory = temporaryFolder()
  const log = await openEmbeddedLog({ directory })
  const topic = testTopic('work')
  await createHarness(log, { topic, partitions })
  const value = Buffer.from(JSON.stringify({ text: 'x'.repeat(valueBytes) }))
  for (let first = 0; first < records; first += chunkRecords) {
    const chunk = Array.from({ length: chunkRecords }, (_, n) => ({
      key: Buffer.from(`lane-${n % 500}`),
      value,
      headers: { 'event-id': `work-${first + n}` },
    }))
    await log.append(topic.name, (first / chunkRecords) % partitions, chunk, { timeoutMs: 60_000 })
  }
  await log.close()
  const result = await run<{ handled: number; heapMbMax: number }>(
    [`--max-old-space-size=${heapMbMax}`],
    [memoryChild, directory, mode, String(records)],
  )
  expect(result.handled).toBe(records)
  expect(result.heapMbMax).toBeLessThan(heapMbMax)
}

export interface PinnedGiven {
  /** A folder, or the address of a broker. */
  where: string
  mode: Mode
  deliveries: number
  /** How many of the first come among 150 KB of other writes each: kept as it is read, each would keep these as well. */
  amongOthers: number
  /** Bound of resident memory. Default 200: with the writes read next to them the deliveries would keep 450. */
  rssMbMax?: number
  /** Bound of buffers. Default 60. */
  buffersMbMax?: number
}

export async function expectNothingPinned({
  where,
  mode,
  deliveries,
  amongOthers,
  rssMbMax = 200,
  buffersMbMax = 60,
}: PinnedGiven) {
  const args = [
    where,
    `work-${randomUUID()}`,
    mode,
    ...[deliveries, amongOthers, rssMbMax, buffersMbMax].map(String),
  ]
  const result = await run<{ deliveries: number; rssMb: number; arrayBuffersMb: number }>(
    [],
    [pinnedChild, ...args],
  )
  expect(result.deliveries).toBe(deliveries)
  expect(result.rssMb).toBeLessThan(rssMbMax)
  expect(result.arrayBuffersMb).toBeLessThan(buffersMbMax)
}

async function run<Result>(flags: string[], args: string[]): Promise<Result> {
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, ...args])
  return JSON.parse(stdout) as Result
}
