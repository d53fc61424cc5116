/** Appends that wait to be written: a bounded queue for each partition, from which batches are taken fairly. */

import { budgets } from '#lib/budgets.ts'
import { AppError } from '#lib/errors.ts'
import type { PreparedRecord } from './record-block.ts'
import type { PartitionState } from './topics.ts'

/** A batch ends here (a single larger append makes one of its own): the next one waits no longer than its commit. */
const batchBytesMax = 262_144
const batchRecordsMax = 4_096
/** Up to this an append is small: it goes before large ones of other partitions. */
const smallBytesMax = 32_768
/** Not yet durable, for one partition; one append above it is still taken when there is no other. */
const partitionBytesMax = budgets.log.partitionWaitingBytes
const partitionRecordsMax = 100_000
/** Not yet durable, for all partitions. */
const totalBytesMax = budgets.log.waitingBytes

export interface Append {
  state: PartitionState
  records: PreparedRecord[]
  bytes: number
  /** As in the writing thread. */
  holder: number
  resolve(first: number): void
  reject(error: unknown): void
}

interface WaitingAppends {
  /** Throws AppError `overloaded` when too much is not yet durable. */
  add(one: Append): void
  /** Takes out one whose time is over; false when it has left already. */
  remove(one: Append): boolean
  /**
   * What the next batch writes, in order per partition: small ones alone when there are some, large ones otherwise and
   * after every batch of small ones. So a small append never shares a commit with hundreds of kilobytes, and large ones
   * never starve. Empty when nothing waits, or only large ones while `smallOnly`.
   */
  take(smallOnly?: boolean): Append[]
  /** The append is durable or refused: it counts no more. */
  settle(one: Append): void
  empty(): boolean
}

export function createWaitingAppends(): WaitingAppends {
  /** Partitions take turns: one that gave a large append goes to the end. */
  const queues = new Map<PartitionState, Append[]>()
  const loads = new Map<PartitionState, { appends: number; bytes: number; records: number }>()
  let totalBytes = 0
  /** The last batch was one of small appends: large ones come next. */
  let largeIsDue = false

  /** Moves heads of the queues into `taken` until the batch is full; of large ones one a partition. */
  function takeHeads(taken: Append[], large: boolean): void {
    let bytes = taken.reduce((sum, one) => sum + one.bytes, 0)
    let records = taken.reduce((sum, one) => sum + one.records.length, 0)
    // The first one is taken whatever is there already, so that many small ones never starve the large.
    let some = false
    for (const [state, queue] of [...queues]) {
      for (let head = queue[0]; head && head.bytes > smallBytesMax === large; head = queue[0]) {
        bytes += head.bytes
        records += head.records.length
        if (some && (bytes > batchBytesMax || records > batchRecordsMax)) return
        some = true
        taken.push(head)
        queue.shift()
        if (large) break
      }
      if (large || queue.length === 0) queues.delete(state)
      if (large && queue.length > 0) queues.set(state, queue)
    }
  }

  return {
    add(one) {
      const load = loads.get(one.state) ?? { appends: 0, bytes: 0, records: 0 }
      const partitionFull =
        load.bytes + one.bytes > partitionBytesMax || load.records + one.records.length > partitionRecordsMax
      if ((partitionFull && load.appends > 0) || (totalBytes + one.bytes > totalBytesMax && totalBytes > 0)) {
        throw new AppError('overloaded', 'Too much is waiting to be written; try again in a second.', {
          retryAfter: 1,
        })
      }
      load.appends++
      load.bytes += one.bytes
      load.records += one.records.length
      totalBytes += one.bytes
      loads.set(one.state, load)
      const queue = queues.get(one.state)
      if (queue) queue.push(one)
      else queues.set(one.state, [one])
    },
    remove(one) {
      const queue = queues.get(one.state)
      const at = queue?.indexOf(one) ?? -1
      if (!queue || at < 0) return false
      queue.splice(at, 1)
      if (queue.length === 0) queues.delete(one.state)
      return true
    },
    take(smallOnly = false) {
      const taken: Append[] = []
      if (!largeIsDue || smallOnly) takeHeads(taken, false)
      largeIsDue = taken.length > 0
      if (taken.length > 0 || smallOnly) return taken
      takeHeads(taken, true)
      if (taken.length === 0) takeHeads(taken, false)
      return taken
    },
    settle(one) {
      const load = loads.get(one.state)!
      load.appends--
      load.bytes -= one.bytes
      load.records -= one.records.length
      totalBytes -= one.bytes
      if (load.appends === 0) loads.delete(one.state)
    },
    empty: () => queues.size === 0,
  }
}
