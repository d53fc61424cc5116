/** Reads one record of each of some partitions, for example the oldest that waits for a group. */

import type { Log, StoredRecord } from '#engines/event-log/port.ts'
import { readRecords } from './read-records.ts'

interface ReadFirstOptions {
  eventLog: Log
  /** Physical name. */
  topic: string
  /** Where to look, by partition: below the partition's end. */
  positions: ReadonlyMap<number, number>
  signal: AbortSignal
}

/** Little is wanted of each fetch, but a record always comes as a whole. */
const fetchBytesMax = 16_384

/** The first record at or behind each position; a partition where nothing is left there is missing. */
export async function readFirst(options: ReadFirstOptions): Promise<Map<number, StoredRecord>> {
  const { eventLog, topic, positions, signal } = options
  const missing = new Set(positions.keys())
  const found = new Map<number, StoredRecord>()
  if (missing.size === 0) return found
  const complete = new AbortController()
  await readRecords({
    eventLog,
    topic,
    startOf: ({ partition, end }) => positions.get(partition) ?? end,
    fetchBytesMax,
    signal: AbortSignal.any([signal, complete.signal]),
    records(records) {
      const first = records.find(({ hidden }) => !hidden)
      if (!first || found.has(first.partition)) return
      found.set(first.partition, first)
      missing.delete(first.partition)
      // The rest of the backlog is not needed.
      if (missing.size === 0) complete.abort()
    },
  })
  return found
}
