/** Group commit: what is to be written now becomes one batch, two batches under way at most, answers in order. */

import { AppError } from '#lib/errors.ts'
import type { NewRecord } from '../port.ts'
import type { Place } from './places.ts'
import {
  createCursor,
  type PreparedRecord,
  packPrepared,
  prepare,
  takeRecords,
  weigh,
} from './record-block.ts'
import type { PositionRow, WriteBatch } from './writer.ts'

/** One batch ends at these; a single append may be larger. */
const batchBytesMax = 4_194_304
const batchRecordsMax = 4_096
const batchPositionsMax = 1_024
/** Batches that the writing thread has at once: it commits one while the next is made ready. */
const batchesUnderWayMax = 2
/** Waiting for one partition; one append above it is still taken when nothing waits. */
const partitionBytesMax = 67_108_864
const partitionRecordsMax = 100_000
/** Waiting for all partitions. */
const totalBytesMax = 268_435_456
/** Positions that wait to be written. */
const positionsMax = 10_000

interface Append {
  place: Place
  records: PreparedRecord[]
  bytes: number
  resolve(first: number): void
  reject(error: unknown): void
  timer: NodeJS.Timeout | undefined
}

interface Commit {
  rows: PositionRow[]
  resolve(): void
  reject(error: unknown): void
}

export interface WriteQueue {
  /** Resolves with the offset of the first record when all are durable and every reader has heard of them. */
  append(place: Place, records: NewRecord[], timeoutMs: number): Promise<number>
  /** Resolves when the positions are durable; they are written in the order of the calls. */
  commit(rows: PositionRow[]): Promise<void>
  /** Resolves when nothing waits or is under way any more. */
  settled(): Promise<void>
}

/** `write` is the writing thread; `wrote` hears the size of each batch that is durable. */
export function createWriteQueue(
  write: (batch: WriteBatch) => Promise<number[]>,
  wrote: (bytes: number) => void,
): WriteQueue {
  const appends: Append[] = []
  const commits: Commit[] = []
  const waiting = new Map<Place, { bytes: number; records: number }>()
  let waitingBytes = 0
  let underWay = 0
  let scheduled = false
  const idle: (() => void)[] = []

  function tellIdle(): void {
    if (underWay + appends.length + commits.length > 0) return
    for (const heard of idle.splice(0)) heard()
  }

  function schedule(): void {
    if (scheduled || underWay >= batchesUnderWayMax || appends.length + commits.length === 0) return
    scheduled = true
    queueMicrotask(() => {
      scheduled = false
      const taken = { appends: takeAppends(appends), commits: takeCommits(commits) }
      if (taken.appends.length + taken.commits.length > 0) void send(taken)
      schedule()
    })
  }

  async function send(taken: { appends: Append[]; commits: Commit[] }): Promise<void> {
    underWay++
    const bytes = taken.appends.reduce((sum, one) => sum + one.bytes, 0)
    try {
      const records = taken.appends.flatMap((one) => one.records)
      const block = packPrepared(records, bytes, Date.now())
      const firsts = await write({
        appends: taken.appends.map((one) => ({ place: one.place.id, records: one.records.length })),
        block,
        positions: taken.commits.flatMap((one) => one.rows),
      })
      underWay--
      schedule()
      wrote(bytes)
      acknowledge(taken.appends, firsts, block, records.length)
      for (const one of taken.commits) one.resolve()
    } catch (cause) {
      underWay--
      const error = unavailable(cause)
      for (const one of [...taken.appends, ...taken.commits]) one.reject(error)
      schedule()
    }
    tellIdle()
  }

  function enter(one: Append): void {
    const load = waiting.get(one.place) ?? { bytes: 0, records: 0 }
    const full =
      load.bytes + one.bytes > partitionBytesMax || load.records + one.records.length > partitionRecordsMax
    if ((full && load.records > 0) || (waitingBytes + one.bytes > totalBytesMax && waitingBytes > 0)) {
      throw new AppError('overloaded', 'Too much is waiting to be written; try again in a second.', {
        retryAfter: 1,
      })
    }
    waiting.set(one.place, {
      bytes: load.bytes + one.bytes,
      records: load.records + one.records.length,
    })
    waitingBytes += one.bytes
  }

  function leave(one: Append): void {
    clearTimeout(one.timer)
    const load = waiting.get(one.place)
    if (!load) return
    load.bytes -= one.bytes
    load.records -= one.records.length
    waitingBytes -= one.bytes
    if (load.records <= 0) waiting.delete(one.place)
  }

  return {
    append(place, records, timeoutMs) {
      const prepared = records.map(prepare)
      const bytes = checkSizes(place, prepared)
      return new Promise<number>((resolve, reject) => {
        const one: Append = { place, records: prepared, bytes, resolve, reject, timer: undefined }
        enter(one)
        // Answered exactly once: by the acknowledgement, a fault or the time-out, whichever comes first. Its weight
        // counts until the thread is done with it.
        one.resolve = (first) => {
          leave(one)
          resolve(first)
        }
        one.reject = (error) => {
          leave(one)
          reject(error)
        }
        one.timer = setTimeout(() => {
          const at = appends.indexOf(one)
          if (at < 0) return reject(unavailable(new Error('no answer in time')))
          appends.splice(at, 1)
          one.reject(unavailable(new Error('no turn in time')))
          tellIdle()
        }, timeoutMs)
        appends.push(one)
        schedule()
      })
    },
    commit(rows) {
      return new Promise((resolve, reject) => {
        if (commits.length >= positionsMax) return reject(unavailable(new Error('too many commits wait')))
        commits.push({ rows, resolve, reject })
        schedule()
      })
    },
    settled() {
      return new Promise((resolve) => {
        idle.push(resolve)
        tellIdle()
      })
    },
  }
}

function checkSizes(place: Place, records: PreparedRecord[]): number {
  const { name, recordBytesMax } = place.topic.spec
  let bytes = 0
  for (const record of records) {
    const size = weigh(record)
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

function takeAppends(appends: Append[]): Append[] {
  let bytes = 0
  let records = 0
  let count = 0
  for (const one of appends) {
    bytes += one.bytes
    records += one.records.length
    if (count > 0 && (bytes > batchBytesMax || records > batchRecordsMax)) break
    count++
  }
  return appends.splice(0, count)
}

const takeCommits = (commits: Commit[]): Commit[] => commits.splice(0, batchPositionsMax)

/** Tells the readers first: who awaits an append may rely on tails that are not current any more. */
function acknowledge(appends: Append[], firsts: number[], block: ArrayBuffer, total: number): void {
  const cursor = createCursor(block, total)
  for (const [i, one] of appends.entries()) {
    const { place, records, bytes } = one
    const first = firsts[i]!
    if (first < 0) {
      one.reject(new AppError('not_found', `The topic ${place.topic.spec.name} does not exist.`))
    } else {
      place.end = first + records.length
      const take = () => takeRecords(cursor.fork(), records.length, place.partition, first)
      for (const reader of [...place.readers]) {
        reader.appended(first, records.length, bytes > batchBytesMax ? null : take)
      }
      one.resolve(first)
    }
    cursor.skip(records.length)
  }
}

function unavailable(cause: unknown): AppError {
  if (cause instanceof AppError) return cause
  return new AppError('log_unavailable', 'The event log did not store the records.', { retryAfter: 1, cause })
}
