/** Group commit: whatever waits to be written becomes one batch, and at most two batches are under way. */

import { AppError } from '#lib/errors.ts'
import { release } from '#lib/release.ts'
import type { NewRecord } from '../port.ts'
import type { Clock } from './clock.ts'
import { createCursor, packPrepared, prepare, takeRecords, weigh } from './record-block.ts'
import { unavailable } from './threads.ts'
import type { PartitionState } from './topics.ts'
import { type Append, createWaitingAppends } from './waiting-appends.ts'
import { holderFenced, type PositionRow, partitionGone, type WriteBatch, type Written } from './writer.ts'

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

export interface WriteQueue {
  /** Resolves with the offset of the first record when all are durable and every reader was notified. */
  append(
    state: PartitionState,
    records: NewRecord[],
    options: { timeoutMs: number; holder: number },
  ): Promise<number>
  /** Resolves when the positions are durable; they are written in the order of the calls. */
  commit(rows: PositionRow[]): Promise<void>
  /** Resolves when nothing waits or is under way any more. */
  settled(): Promise<void>
}

/** `write` is the writing thread; `wrote` is called with the size of each batch that is durable. */
export function createWriteQueue(parts: {
  write(batch: WriteBatch): Promise<Written>
  wrote(bytes: number): void
  clock: Clock
}): WriteQueue {
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
      const error = notStored(cause)
      for (const one of [...taken, ...positions]) one.reject(error)
    }
    underWay--
    largeUnderWay -= large
    schedule()
  }

  return {
    append(state, records, { timeoutMs, holder }) {
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
          const error = notStored(new Error(`not durable within ${timeoutMs} ms`))
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
    commit(rows) {
      return new Promise((resolve, reject) => {
        if (commits.length >= commitsMax) return reject(notStored(new Error('too many commits wait')))
        commits.push({ rows, resolve, reject })
        schedule()
      })
    },
    settled() {
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
      one.reject(new AppError('not_found', `The topic ${state.topic.spec.name} does not exist.`))
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
  if (!kept) release(new Uint8Array(block))
}

function notStored(cause: unknown): AppError {
  return cause instanceof AppError ? cause : unavailable(cause)
}
