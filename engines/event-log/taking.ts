/** Hands the records of a tail to whoever takes them, a partition after the other at its own pace, and counts what was taken. */

import type { GroupConsumer, PartitionRange, StoredRecord, TailOptions } from './port.ts'

/** Where a tail begins in a partition. */
export function startOf(range: PartitionRange, from: TailOptions['from']): number {
  if (typeof from === 'function') return from(range)
  return from === 'end' ? range.end : range.start
}

/**
 * A partition is paused while a promise of `take` is open; what still comes then waits behind it. `changed` is called
 * when more was taken. A rejection counts as taken: the taker has to say what its fault means.
 */
export function createTaking(
  held: Pick<GroupConsumer, 'pause' | 'resume'>,
  take: TailOptions['records'],
  changed: () => void,
) {
  /** By partition: the first offset that is not taken, and the first one pending behind it. */
  const open = new Map<number, { from: number; waiting: StoredRecord[][] }>()

  /** Hands over records of one partition, in order. */
  function give(partition: number, records: StoredRecord[]): void {
    const busy = open.get(partition)
    if (busy) {
      busy.waiting.push(records)
      return
    }
    const taking = take(partition, records)
    if (taking) void follow(partition, records, taking)
  }

  async function follow(partition: number, records: StoredRecord[], first: Promise<void>): Promise<void> {
    const busy = { from: records[0]!.offset, waiting: [] as StoredRecord[][] }
    open.set(partition, busy)
    held.pause(partition)
    await first.catch(() => undefined)
    for (let next = busy.waiting.shift(); next; next = busy.waiting.shift()) {
      busy.from = next[0]!.offset
      await Promise.resolve(take(partition, next)).catch(() => undefined)
    }
    open.delete(partition)
    held.resume(partition)
    changed()
  }

  return {
    give,
    /** The reader's positions, less records that are not taken yet. */
    taken(read: Map<number, number>): Map<number, number> {
      const taken = new Map(read)
      for (const [partition, { from }] of open) taken.set(partition, from)
      return taken
    },
  }
}
