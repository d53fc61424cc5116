/** Reads partitions of a topic from given positions on, in order and without repeats, and says when one is misplaced. */

import type { Logger } from 'pino'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { ConsumerListener, Misplaced, StoredRecord } from '../port.ts'
import type { Cluster } from './cluster.ts'
import { type FetchedPartition, isDiverging, isEmpty, type Reading, takeRecords } from './fetch-call.ts'
import { Fetcher } from './fetcher.ts'
import type { LogRanges } from './log-ranges.ts'
import type { QuietFetcher } from './quiet-fetcher.ts'

export interface ReaderParts {
  cluster: Cluster
  quiet: QuietFetcher
  ranges: LogRanges
  log: Logger
  /** A topic that is compacted has holes; asked when there is one. */
  isCompacted(topic: string): Promise<boolean>
}

const retryPause = { baseMs: 100, maxMs: 2_000 }
const notKnown = -1

export type PartitionReader = ReturnType<typeof openReader>

export function openReader(
  { cluster, quiet, ranges, log, isCompacted }: ReaderParts,
  options: { topic: string; fetchBytesMax: number },
  listener: Pick<ConsumerListener, 'records' | 'misplaced'>,
) {
  const { topic } = options
  const readings = new Map<number, Reading>()
  const stop = new AbortController()
  let compacted: boolean | undefined

  const holds = (reading: Reading) => readings.get(reading.partition) === reading && !stop.signal.aborted
  const fetcher = new Fetcher(
    { cluster, quiet },
    options,
    {
      readable: () => [...readings.values()].filter(({ position, paused }) => position !== null && !paused),
      fetched,
      outOfRange(reading, from) {
        if (holds(reading) && reading.position === from) void check(reading, from)
      },
      replaced() {
        log.warn({ topic }, 'topics.recreated')
        for (const reading of readings.values()) {
          if (reading.position !== null) void check(reading, reading.position, { replaced: true })
        }
      },
    },
    log,
  )

  /**
   * Records of a former position are fetched again when they are wanted. A paused partition gets an answer that was under way: it holds
   * many, and where the first of them made its reader pause all, the others would never have their turn.
   */
  function fetched(reading: Reading, from: number, answer: FetchedPartition): void {
    if (!holds(reading) || reading.position !== from) return
    if (isDiverging(answer)) return void check(reading, from, { missingTo: from + 1 })
    if (isEmpty(answer)) return
    const { records, next, epoch, gap } = takeRecords(reading.partition, answer, from)
    if (gap && compacted !== true) return void check(reading, from, { missingTo: gap.to })
    if (next === from) return
    move(reading, next, epoch)
    const hidden = hiddenUpTo(next, reading.partition, records.at(-1))
    listener.records(reading.partition, hidden ? [...records, hidden] : records)
  }
  function move(reading: Reading, position: number | null, epoch = notKnown): void {
    reading.position = position
    reading.epoch = epoch
  }
  function startAt(reading: Reading, position: number): void {
    move(reading, position)
    fetcher.wake()
  }
  /**
   * The log may have moved on since it answered: only a position that is outside of it now is reported. Known to be wrong
   * whatever the log holds: a position of a topic that was replaced, and one whose records are missing.
   */
  async function check(
    reading: Reading,
    position: number,
    known: { replaced?: true; missingTo?: number } = {},
  ): Promise<void> {
    move(reading, null)
    for (let failures = 0; holds(reading) && reading.position === null; failures++) {
      try {
        if (known.missingTo !== undefined) compacted ??= await isCompacted(topic)
        const [range] = await ranges.ranges(topic, [reading.partition])
        if (!range || !holds(reading) || reading.position !== null) continue
        const problem = problemOf(position, range, compacted === true ? {} : known)
        if (problem) listener.misplaced(reading.partition, problem)
        else startAt(reading, position)
        return
      } catch (error) {
        log.warn({ topic, error: describeError(error) }, 'topics.range-failing')
        await sleep(backoffMs(failures, retryPause), stop.signal)
      }
    }
  }
  return {
    /** From now on the partition may be read; it is silent until `seek`. */
    add: (partition: number): void => void readings.set(partition, unread(partition)),
    /** Nothing more of these is delivered. */
    remove(partitions: number[]): void {
      for (const partition of partitions) readings.delete(partition)
    },
    pause(partition: number): void {
      const reading = readings.get(partition)
      if (reading) reading.paused = true
    },
    resume(partition: number): void {
      const reading = readings.get(partition)
      if (!reading) return
      reading.paused = false
      fetcher.wake()
    },
    seek(partition: number, offset: number): void {
      const reading = readings.get(partition)
      if (reading) startAt(reading, offset)
    },
    /** The next offset of every partition that is being read. */
    positions: (): Map<number, number> =>
      new Map(
        [...readings.values()].flatMap(({ partition, position: at }) =>
          at === null ? [] : [[partition, at]],
        ),
      ),
    close() {
      stop.abort()
      readings.clear()
      return fetcher.close()
    },
  }
}

function unread(partition: number): Reading {
  return { partition, position: null, paused: false, epoch: notKnown, leaderEpoch: notKnown }
}

/** In place of everything between the last record and `next` that is not delivered. */
function hiddenUpTo(next: number, partition: number, last: StoredRecord | undefined): StoredRecord | null {
  if (last?.offset === next - 1) return null
  const timestamp = last?.timestamp ?? 0
  return { partition, offset: next - 1, timestamp, key: null, value: null, headers: {}, hidden: true }
}

function problemOf(
  position: number,
  { start, end }: { start: number; end: number },
  { replaced, missingTo = start }: { replaced?: true; missingTo?: number },
): Misplaced | null {
  // Nothing of the new log belongs to a position in the old one, except that both begin at the same place.
  if (replaced) return position === start ? null : { position, start, end: start }
  const from = Math.max(start, missingTo)
  return position < from || position > end ? { position, start: from, end } : null
}
