/**
 * The records of a topic for programs outside: every one, in the order of its partition, from a position on. A page is
 * what is there now, or comes within a while; a stream goes on.
 */

import type { EventLog, PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import type { Codec, Publisher } from '#runtime/messages.ts'
import { type Misplaced, type ReadOptions, readRecords } from '#runtime/read-records.ts'
import { type ShownRecord, showRecord } from '#runtime/show-record.ts'
import type { Topic } from '#topics/topic.ts'
import { findTopic } from '../find-topic.ts'
import { positionExpired, positionText, readPosition } from './position.ts'

/** Of each partition as much may wait in memory. */
export const fetchBytesMax = 64 * 1024

/** A topic opened at a position. */
export interface OpenedRecords {
  topic: Topic
  /** Physical name. */
  name: string
  epoch: number
  /** Partition → next offset; rises as records are given out. */
  next: Map<number, number>
  codec: Codec
  eventLog: EventLog
}

/** What it takes of the platform. */
export interface RecordsPlatform {
  engines: { eventLog: EventLog }
  codec: Codec
  publisher: Pick<Publisher, 'locationOf'>
}

/**
 * `from`: `beginning`, `end` or a position; a partition that it does not name is read from its first record. `field` is
 * where it was given. Throws AppError `not_found`, `validation_failed`, `position_expired`, `log_unavailable`.
 */
export async function openRecords(
  { engines, codec, publisher }: RecordsPlatform,
  { topic: named, from, field }: { topic: string; from: string; field: string },
): Promise<OpenedRecords> {
  const topic = findTopic(named)
  const { epoch, physicalName: name } = publisher.locationOf(topic)
  const { eventLog } = engines
  const wanted = from === 'beginning' || from === 'end' ? from : readPosition(from, field)
  const ranges = (await eventLog.offsets(name)).toSorted((a, b) => a.partition - b.partition)
  const opened = { topic, name, epoch, codec, eventLog }
  if (wanted === 'beginning' || wanted === 'end') {
    const next = new Map(
      ranges.map(({ partition, start, end }) => [partition, wanted === 'end' ? end : start]),
    )
    return { ...opened, next }
  }
  const earliest = { epoch, next: new Map(ranges.map(({ partition, start }) => [partition, start])) }
  if (wanted.epoch !== epoch) {
    const now = epoch === 1 ? 'without one' : `e${epoch}/`
    throw positionExpired(
      `The position is of epoch e${wanted.epoch}/ of ${named}, which was copied or replaced since (now ${now}): its offsets began again.`,
      earliest,
    )
  }
  for (const partition of wanted.next.keys()) {
    if (partition < ranges.length) continue
    throw positionExpired(
      `${named} has the partitions 0 to ${ranges.length - 1}, not ${partition}.`,
      earliest,
    )
  }
  const next = new Map<number, number>()
  for (const range of ranges) {
    const at = wanted.next.get(range.partition) ?? range.start
    if (at < range.start || at > range.end) throw outside(opened, { ...range, position: at }, ranges)
    next.set(range.partition, at)
  }
  return { ...opened, next }
}

export function positionOf({ epoch, next }: OpenedRecords): string {
  return positionText({ epoch, next })
}

export interface StreamedRecords {
  /** Resolves when there is room for another one. */
  room?(): Promise<void>
  /** `position`: behind it. */
  record(position: string, record: ShownRecord): void | Promise<void>
  /** Nothing is shown, but all before this is read. */
  passed?(position: string): void | Promise<void>
  caughtUp?(): void | Promise<void>
}

/**
 * Every record from the position on, one after the other, until the signal aborts, or without `follow` until what is
 * there now is read. Rejects with AppError `position_expired` when records were removed before they were read,
 * `registry_unavailable`, and with what the reader throws.
 */
export async function streamRecords(
  opened: OpenedRecords,
  reader: StreamedRecords,
  { signal, follow = true }: { signal: AbortSignal; follow?: boolean },
): Promise<void> {
  const { next } = opened
  // One partition after the other: a position holds for what was given before it.
  let taking: Promise<void> = Promise.resolve()
  async function take(records: readonly StoredRecord[]): Promise<void> {
    for (const record of records) {
      await reader.room?.()
      if (signal.aborted) return
      const shown = record.hidden ? null : await shownOf(opened, record)
      next.set(record.partition, record.offset + 1)
      if (shown) await reader.record(positionOf(opened), shown)
    }
    await reader.passed?.(positionOf(opened))
  }
  try {
    await readRecords({
      ...readingOf(opened),
      follow,
      signal,
      records(records) {
        taking = taking.then(() => take(records))
        return taking
      },
      caughtUp: () => reader.caughtUp?.(),
    })
  } finally {
    // Aborted, it ends behind what the reader has begun. A fault of it is thrown already.
    await taking.catch(() => {})
  }
}

/** What both ways of reading have in common. */
export function readingOf(
  opened: OpenedRecords,
): Pick<ReadOptions, 'eventLog' | 'topic' | 'startOf' | 'misplaced' | 'fetchBytesMax'> {
  const { next, eventLog, name: topic } = opened
  let ranges: PartitionRange[] = []
  return {
    eventLog,
    topic,
    fetchBytesMax,
    startOf(range) {
      ranges = [...ranges, range]
      return next.get(range.partition) ?? range.start
    },
    misplaced: (problem) => outside(opened, problem, ranges),
  }
}

/** Decoded, as programs get it: nothing is cut. Bytes of internal topics may hold what is nobody's. */
export function shownOf({ codec, topic }: OpenedRecords, record: StoredRecord): Promise<ShownRecord> {
  return showRecord(codec, topic, record, { bytes: topic.public ? 'base64' : 'size', wholly: true })
}

function outside(
  { topic, epoch }: Pick<OpenedRecords, 'topic' | 'epoch'>,
  { partition, position, start, end }: Misplaced,
  ranges: readonly PartitionRange[],
) {
  const firsts = new Map(ranges.map((range) => [range.partition, range.start]))
  const earliest = { epoch, next: firsts.set(partition, start) }
  const held = `partition ${partition} of ${topic.name} holds ${start} to ${end}`
  return positionExpired(`The position says ${partition}:${position}, but ${held}.`, earliest)
}
