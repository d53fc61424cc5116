/**
 * Group commit: appends wait in a bounded queue for each partition, from which batches are taken fairly; whatever waits
 * becomes one batch, and at most two batches are under way.
 */

import { budgets } from '#lib/budgets.ts'
import { AppError, overloaded } from '#lib/errors.ts'
import { detach } from '#lib/giving-way.ts'
import { logUnavailable, topicNotFound } from '../faults.ts'
import type { NewRecord } from '../port.ts'
import {
  type Clock,
  createCursor,
  type PreparedRecord,
  packPrepared,
  prepare,
  takeRecords,
  weigh,
} from './record-block.ts'
import type { PartitionState } from './topics.ts'
import { holderFenced, type PositionRow, partitionGone, type WriteBatch, type Written } from './writer.ts'

/** A batch ends here (a single larger append is one of its own): the next waits for its commit. A request of 100 vectors fits. */
const batchBytesMax = 786_432
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

export function createWaitingAppends() {
  /** Partitions take turns: one that gave a large append goes to the end. */
  const queues = new Map<PartitionState, Append[]>()
  const loads = new Map<PartitionState, { appends: number; bytes: number; records: number }>()
  let totalBytes = 0
  /** The last batch was one of small appends: large ones come next. */
  let largeIsDue = false

  /** Heads of the queues until the batch is full, at least one; of large ones one a partition. */
  function takeHeads(large: boolean): Append[] {
    const taken: Append[] = []
    let [bytes, records] = [0, 0]
    for (const [state, queue] of [...queues]) {
      for (let head = queue[0]; head && head.bytes > smallBytesMax === large; head = queue[0]) {
        bytes += head.bytes
        records += head.records.length
        if (taken.length > 0 && (bytes > batchBytesMax || records > batchRecordsMax)) return taken
        taken.push(head)
        queue.shift()
        if (large) break
      }
      if (large || queue.length === 0) queues.delete(state)
      if (large && queue.length > 0) queues.set(state, queue)
    }
    return taken
  }

  return {
    /** Throws AppError `overloaded` when too much is not yet durable. */
    add(one: Append): void {
      const load = loads.get(one.state) ?? { appends: 0, bytes: 0, records: 0 }
      const partitionFull =
        load.bytes + one.bytes > partitionBytesMax || load.records + one.records.length > partitionRecordsMax
      if ((partitionFull && load.appends > 0) || (totalBytes + one.bytes > totalBytesMax && totalBytes > 0)) {
        throw overloaded('Too much is waiting to be written')
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
    /** Takes out one whose time is over; false when it has left already. */
    remove(one: Append): boolean {
      const queue = queues.get(one.state)
      const at = queue?.indexOf(one) ?? -1
      if (!queue || at < 0) return false
      queue.splice(at, 1)
      if (queue.length === 0) queues.delete(one.state)
      return true
    },
    /**
     * What the next batch writes, in order per partition: small ones alone when there are some, large ones otherwise and
     * after every batch of small ones. So a small append never shares a commit with hundreds of kilobytes, and large ones
     * never starve. Empty when nothing waits, or only large ones while `smallOnly`.
     */
    take(smallOnly = false): Append[] {
      const small = largeIsDue && !smallOnly ? [] : takeHeads(false)
      largeIsDue = small.length > 0
      if (small.length > 0 || smallOnly) return small
      const large = takeHeads(true)
      return large.length > 0 ? large : takeHeads(false)
    },
    /** The append is durable or refused: it counts no more. */
    settle(one: Append): void {
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

/** Batches that the writing thread has at once: it commits one while the next is made ready. */
const batchesUnderWayMax = 2
/** While a batch above this is under way, only a small one may wait behind it in the thread. */
const largeBatchBytes = 65_536
const batchPositionsMax = 1_024
/** Commits that wait to be written. */
const commitsMax = 10_000
/** A larger append is read back from the file instead of being handed to readers at once. */
const handOverBytesMax = 1_048_576

interface Commit {
  rows: PositionRow[]
  resolve(): void
  reject(error: unknown): void
}

export type WriteQueue = ReturnType<typeof createWriteQueue>

/** `write` is the writing thread; `wrote` is called with the size of each batch that is durable. */
export function createWriteQueue(parts: {
  write(batch: WriteBatch): Promise<Written>
  wrote(bytes: number): void
  clock: Clock
}) {
  const { write, wrote, clock } = parts
  const appends = createWaitingAppends()
  const commits: Commit[] = []
  const idle: (() => void)[] = []
  let underWay = 0
  let largeUnderWay = 0
  let scheduled = false

  const nothingWaits = () => appends.empty() && commits.length === 0

  /** All calls of one tick share a batch. */
  function schedule(): void {
    if (nothingWaits() && underWay === 0) for (const resolve of idle.splice(0)) resolve()
    if (scheduled || underWay >= batchesUnderWayMax || nothingWaits()) return
    scheduled = true
    queueMicrotask(() => {
      scheduled = false
      const taken = appends.take(largeUnderWay > 0)
      const positions = commits.splice(0, batchPositionsMax)
      // Large ones that must wait are taken up when the one under way is done.
      if (taken.length === 0 && positions.length === 0) return
      void send(taken, positions)
      schedule()
    })
  }

  async function send(taken: Append[], positions: Commit[]): Promise<void> {
    const bytes = taken.reduce((sum, one) => sum + one.bytes, 0)
    const large = bytes > largeBatchBytes ? 1 : 0
    underWay++
    largeUnderWay += large
    try {
      const records = taken.flatMap((one) => one.records)
      const { firsts, block } = await write({
        appends: taken.map((one) => ({
          partitionId: one.state.id,
          records: one.records.length,
          holder: one.holder,
        })),
        block: packPrepared(records, bytes, clock()),
        positions: positions.flatMap((one) => one.rows),
      })
      wrote(bytes)
      acknowledge(taken, firsts, block, records.length)
      for (const one of positions) one.resolve()
    } catch (cause) {
      const error = cause instanceof AppError ? cause : logUnavailable(cause)
      for (const one of [...taken, ...positions]) one.reject(error)
    }
    underWay--
    largeUnderWay -= large
    schedule()
  }

  return {
    /** Resolves with the offset of the first record when all are durable and every reader was notified. */
    append(
      state: PartitionState,
      records: NewRecord[],
      { timeoutMs, holder }: { timeoutMs: number; holder: number },
    ): Promise<number> {
      const prepared = records.map(prepare)
      const bytes = checkSizes(state, prepared.map(weigh))
      return new Promise<number>((resolve, reject) => {
        const one: Append = {
          state,
          records: prepared,
          bytes,
          holder,
          resolve(first) {
            settle()
            resolve(first)
          },
          reject(error) {
            settle()
            reject(error)
          },
        }
        appends.add(one)
        // One that is under way counts until the thread has answered, though its caller does not wait any more.
        const timer = setTimeout(() => {
          const error = logUnavailable(new Error(`not durable within ${timeoutMs} ms`))
          if (appends.remove(one)) one.reject(error)
          else reject(error)
        }, timeoutMs)
        function settle(): void {
          clearTimeout(timer)
          appends.settle(one)
        }
        schedule()
      })
    },
    /** Resolves when the positions are durable; they are written in the order of the calls. */
    commit(rows: PositionRow[]): Promise<void> {
      return new Promise((resolve, reject) => {
        if (commits.length >= commitsMax) return reject(logUnavailable(new Error('too many commits wait')))
        commits.push({ rows, resolve, reject })
        schedule()
      })
    },
    /** Resolves when nothing waits or is under way any more. */
    settled(): Promise<void> {
      return new Promise((resolve) => {
        idle.push(resolve)
        schedule()
      })
    },
  }
}

/** The sum of the sizes; throws when one is above the topic's limit. */
function checkSizes(state: PartitionState, sizes: number[]): number {
  const { name, recordBytesMax } = state.topic.spec
  let bytes = 0
  for (const size of sizes) {
    if (size > recordBytesMax) {
      throw new AppError(
        'payload_too_large',
        `A record of ${size} bytes is above the limit of ${name}, ${recordBytesMax} bytes.`,
      )
    }
    bytes += size
  }
  return bytes
}

/** Notifies the readers first: whoever awaits an append may rely on tails being no longer current. */
function acknowledge(appends: Append[], firsts: number[], block: ArrayBuffer, total: number): void {
  const cursor = createCursor(block, total)
  let kept = false
  for (const [i, one] of appends.entries()) {
    const { state, records, bytes } = one
    const first = firsts[i]!
    if (first === partitionGone) {
      one.reject(topicNotFound(state.topic.spec.name))
    } else if (first === holderFenced) {
      one.reject(new AppError('fenced', 'Another writer has taken the name over.'))
    } else {
      state.end = first + records.length
      const take = () => {
        kept = true
        return takeRecords(cursor.fork(), records.length, state.partition, first)
      }
      for (const reader of [...state.readers]) {
        reader.appended(first, records.length, bytes > handOverBytesMax ? null : take)
      }
      one.resolve(first)
    }
    cursor.skip(records.length)
  }
  if (!kept) detach(new Uint8Array(block))
}
