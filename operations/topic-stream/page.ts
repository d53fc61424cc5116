/** One page of a topic's records: fair over the partitions, in order within each, bounded in records and bytes. */

import type { PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import { spendTurn } from '#lib/giving-way.ts'
import { followRecords, recordBytes } from '#runtime/follow/follow-topic.ts'
import type { ShownRecord } from '#runtime/follow/show-record.ts'
import { fetchBytesMax, type OpenedRecords, positionOf, readingOf, shownOf } from './records.ts'

/** Characters of JSON; one record comes whatever its size. */
const pageLengthMax = 4 * 1024 * 1024
/** A page that could be full waits so long for partitions that have not answered yet. */
const fairMs = 1_000

interface RecordsPage {
  records: ShownRecord[]
  /** Behind what was given. */
  next: string
  /** About the length of its JSON. */
  bytes: number
}

export interface PageOptions {
  limit: number
  /** Where nothing is there, a record is waited for so long. */
  waitMs: number
  /** Aborted, the page has what was read until then. */
  signal: AbortSignal
}

/** Rejects with AppError `position_expired`, `log_unavailable`, `registry_unavailable`. */
export async function readPage(
  opened: OpenedRecords,
  { limit, waitMs, signal }: PageOptions,
): Promise<RecordsPage> {
  const read = createHeld(limit)
  const over = new AbortController()
  const end = () => over.abort()
  const stop = AbortSignal.any([signal, over.signal])
  const stopped = new Promise<void>((resolve) => {
    stop.addEventListener('abort', () => resolve(), { once: true })
  })
  const late = waitMs > 0 ? setTimeout(end, waitMs) : undefined
  let fair: NodeJS.Timeout | undefined
  let caughtUp = false
  const reading = readingOf(opened)
  const ended = Promise.withResolvers<void>()
  void stopped.then(ended.resolve)
  if (!signal.aborted) {
    const following = await followRecords(opened.platform, opened.topic, {
      ...reading,
      from(range) {
        const from = reading.from(range)
        read.expect(range, from)
        return from
      },
      onRecord(record) {
        read.add(record)
        // The rest of a full partition is left where it is.
        return read.isFull(record.partition) ? look().then(() => stopped) : undefined
      },
      async onBatch(partition, next) {
        read.pass(partition, next)
        await look()
      },
      onEnd: ended.reject,
    })
    async function look(): Promise<void> {
      if (read.count() > 0 && (caughtUp || read.isComplete())) end()
      else if (read.isEnough()) fair ??= setTimeout(end, fairMs)
    }
    following.ready.then(
      () => {
        caughtUp = true
        if (read.count() > 0 || waitMs === 0) end()
      },
      () => {},
    )
    try {
      await ended.promise
    } finally {
      clearTimeout(late)
      clearTimeout(fair)
      end()
      await following.close()
    }
  }
  return takeFair(opened, read.partitions, limit)
}

interface HeldPartition {
  records: StoredRecord[]
  bytes: number
  /** Behind what came of it, hidden records included. */
  passed: number
  /** As far as it is read for this page. */
  end: number
}

/** What was read for a page, by partition. */
function createHeld(limit: number) {
  const partitions = new Map<number, HeldPartition>()
  let count = 0
  let bytes = 0
  const heldOf = (partition: number): HeldPartition => {
    const held = partitions.get(partition) ?? { records: [], bytes: 0, passed: 0, end: 0 }
    partitions.set(partition, held)
    return held
  }
  const isFull = (held: HeldPartition) =>
    held.records.length >= limit || held.bytes >= Math.max(fetchBytesMax, pageLengthMax / partitions.size)
  return {
    partitions,
    count: () => count,
    isFull: (partition: number) => isFull(heldOf(partition)),
    expect({ partition, end }: PartitionRange, from: number): void {
      Object.assign(heldOf(partition), { passed: from, end })
    },
    add(record: StoredRecord): void {
      const held = heldOf(record.partition)
      const size = recordBytes(record)
      held.passed = record.offset + 1
      held.records.push(record)
      held.bytes += size
      count += 1
      bytes += size
    },
    pass(partition: number, next: number): void {
      heldOf(partition).passed = next
    },
    /** Every partition has given its share, or all that it had. */
    isComplete: () => [...partitions.values()].every((held) => isFull(held) || held.passed >= held.end),
    /** The page could be full with what is there. */
    isEnough: () => count >= limit || bytes >= pageLengthMax || [...partitions.values()].some(isFull),
  }
}

/** One record of each partition in turn. Where a page begins changes with the position, so that none is always last. */
async function takeFair(
  opened: OpenedRecords,
  partitions: ReadonlyMap<number, HeldPartition>,
  limit: number,
): Promise<RecordsPage> {
  const { next } = opened
  const order = [...partitions.keys()].toSorted((a, b) => a - b)
  const sum = [...next.values()].reduce((total, offset) => total + offset, 0)
  const first = order.length === 0 ? 0 : sum % order.length
  const turns = [...order.slice(first), ...order.slice(0, first)].map((partition) => ({
    ...partitions.get(partition)!,
    partition,
    taken: 0,
  }))
  const records: ShownRecord[] = []
  let length = 0
  let isFull = false
  const isOver = () => isFull || records.length >= limit || length >= pageLengthMax
  for (let more = true; more && !isOver(); ) {
    more = false
    for (const turn of turns) {
      const record = turn.records[turn.taken]
      if (!record || isOver()) continue
      const shown = await shownOf(opened, record)
      await spendTurn(recordBytes(record))
      const size = JSON.stringify(shown).length
      if (records.length > 0 && length + size > pageLengthMax) {
        isFull = true
        break
      }
      records.push(shown)
      length += size
      turn.taken += 1
      next.set(turn.partition, record.offset + 1)
      more = true
    }
  }
  // Behind the last real record lie hidden ones.
  for (const { partition, records: held, taken, passed } of turns) {
    if (taken === held.length) next.set(partition, Math.max(passed, next.get(partition) ?? 0))
  }
  return { records, next: positionOf(opened), bytes: length }
}
