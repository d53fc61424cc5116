/** A process to be killed: works on a log in the folder it is given and prints every acknowledgement as a line. */

import { writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import type { NewRecord } from '#engines/event-log/port.ts'

/** One line for an acknowledged call. */
export type Acknowledged =
  | {
      kind: 'append'
      topic: string
      partition: number
      offset: number
      key: string
      first: number
      count: number
    }
  | { kind: 'commit'; partition: number; offset: number }
  | { kind: 'cut'; partition: number; start: number }

export const topics = { kept: 'kept', compacted: 'compacted', cut: 'cut' } as const
export const partitions = 3

const spec = {
  partitions,
  retentionMs: null,
  tombstoneRetentionMs: 86_400_000,
  segmentBytes: 67_108_864,
  segmentMs: 1,
  recordBytesMax: 2_097_152,
}

/** Written before the next call, so every line was acknowledged before the kill. A busy reader's pipe may be full. */
function tell(line: Acknowledged): void {
  const bytes = Buffer.from(`${JSON.stringify(line)}\n`)
  for (let from = 0; from < bytes.length; ) {
    try {
      from += writeSync(1, bytes, from)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
    }
  }
}

function recordsOf(key: string, first: number, count: number): NewRecord[] {
  return Array.from({ length: count }, (_, i) => ({
    key: Buffer.from(key),
    value: Buffer.from(`${first + i}:${'x'.repeat(((first + i) * 37) % 3_000)}`),
  }))
}

async function run(directory: string, from: number): Promise<void> {
  const log = await openEmbeddedLog({ directory, sweepEveryMs: 20 })
  for (const name of [topics.kept, topics.cut]) await log.createTopic({ ...spec, name, cleanup: 'delete' })
  await log.createTopic({ ...spec, name: topics.compacted, cleanup: 'compact' })

  async function write(topic: string, partition: number, key: string): Promise<never> {
    for (let first = from; ; ) {
      const count = (first % 4) + 1
      const offset = await log.append(topic, partition, recordsOf(key, first, count), { timeoutMs: 30_000 })
      tell({ kind: 'append', topic, partition, offset, key, first, count })
      first += count
    }
  }
  async function consume(): Promise<void> {
    const consumer = await log.consume({
      group: 'group',
      topic: topics.kept,
      listener: {
        assigned: async (gained) =>
          new Map(gained.map((one) => [one.partition, one.committed?.offset ?? one.start])),
        lost() {},
        misplaced() {},
        async records(partition, records) {
          const offset = records.at(-1)!.offset + 1
          if ((await consumer.commit(partition, offset, `${offset}`)) === 'committed') {
            tell({ kind: 'commit', partition, offset })
          }
        },
      },
    })
  }
  async function cut(): Promise<never> {
    for (;;) {
      for (const { partition, end } of await log.offsets(topics.cut)) {
        const start = Math.max(0, end - 10)
        await log.deleteRecords(topics.cut, partition, start)
        tell({ kind: 'cut', partition, start })
      }
      await sleep(5)
    }
  }
  async function compact(): Promise<never> {
    for (;;) {
      await log.compactNow(topics.compacted)
      await sleep(5)
    }
  }
  await consume()
  const writers = Object.values(topics).flatMap((topic) =>
    Array.from({ length: partitions * 2 }, (_, i) => write(topic, i % partitions, `key${i}`)),
  )
  await Promise.all([...writers, cut(), compact()])
}

if (process.argv[2] === 'run') await run(process.argv[3]!, Number(process.argv[4]))
