/**
 * The records of a topic for programs outside: every one, in the order of its partition, from a position on. A page is
 * what is there now, or comes within a while; a stream goes on.
 */

import { LRUCache } from 'lru-cache'
import type { Log, PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { budgets } from '#lib/budgets.ts'
import {
  type FollowParts,
  type FollowRecords,
  followRecords,
  type Misplaced,
  recordBytes,
} from '#runtime/follow/follow-topic.ts'
import { type ShownRecord, showRecord } from '#runtime/follow/show-record.ts'
import type { Codec } from '#runtime/publish/messages.ts'
import type { Topic } from '#topics/topic.ts'
import { findTopic } from '../find-topic.ts'
import { positionExpired, positionText, readPosition } from './position.ts'

/** About twice as much of each partition may wait in memory, or one record. */
export const fetchBytesMax = 32 * 1024

/** A topic opened at a position. */
export interface OpenedRecords {
  topic: Topic
  /** Physical name. */
  name: string
  epoch: number
  /** Partition → next offset; rises as records are given out. */
  next: Map<number, number>
  /** Fields of values that the reader is not shown. */
  withheld: readonly string[]
  platform: FollowParts & { eventLog: Log; codec: Codec }
}

/** What it takes of the platform. */
export interface RecordsPlatform extends Omit<FollowParts, 'eventLog'> {
  engines: { eventLog: Log }
  codec: Codec
}

interface OpenAt {
  topic: string
  from: string
  field: string
  withheld?: readonly string[]
}

/**
 * `from`: `beginning`, `end` or a position; a partition that it does not name is read from its first record. `field` is
 * where it was given; `withheld` fields of values are left out. Throws AppError `not_found`, `validation_failed`,
 * `position_expired`, `log_unavailable`.
 */
export async function openRecords(
  { engines: { eventLog }, codec, publisher, log }: RecordsPlatform,
  { topic: named, from, field, withheld = [] }: OpenAt,
): Promise<OpenedRecords> {
  const topic = findTopic(named)
  const { epoch, physicalName: name } = publisher.locationOf(topic)
  const wanted = from === 'beginning' || from === 'end' ? from : readPosition(from, field)
  const ranges = (await eventLog.offsets(name)).toSorted((a, b) => a.partition - b.partition)
  const opened = { topic, name, epoch, withheld, platform: { eventLog, codec, publisher, log } }
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

interface StreamedRecords<T> {
  /** What is given of a record. Rejects with what ends the stream. */
  show(record: StoredRecord): Promise<T>
  /** Resolves when there is room for another one. A reader without room for a while costs no memory of the log's. */
  room?(): Promise<void>
  /** `position`: behind it. */
  record(position: string, shown: T): void | Promise<void>
  /** Nothing is shown, but all before this is read. */
  passed?(position: string): void | Promise<void>
  caughtUp?(): void | Promise<void>
}

/** A reader that has no room for so long has its buffers taken away until it has. */
const roomlessMs = 1_000

/**
 * Every record from the position on, one after the other, until the signal aborts, or without `follow` until what is
 * there now is read. Rejects with AppError `position_expired` when records were removed before they were read,
 * `registry_unavailable`, and with what the reader throws.
 */
export async function streamRecords<T>(
  opened: OpenedRecords,
  reader: StreamedRecords<T>,
  { signal, follow = true }: { signal: AbortSignal; follow?: boolean },
): Promise<void> {
  while (!signal.aborted) {
    const end = await streamOnce(opened, reader, { signal, follow })
    if (end !== 'no room') return
    await reader.room?.()
  }
}

/** Over when the signal aborts, at the end, or as long as the reader takes nothing. */
async function streamOnce<T>(
  opened: OpenedRecords,
  reader: StreamedRecords<T>,
  { signal, follow }: { signal: AbortSignal; follow: boolean },
): Promise<'over' | 'no room'> {
  const { next, topic } = opened
  const over = Promise.withResolvers<'over' | 'no room'>()
  const stop = new AbortController()
  signal.addEventListener('abort', () => over.resolve('over'), { once: true, signal: stop.signal })
  // One partition after the other: a position holds for what was given before it.
  let taking: Promise<void> = Promise.resolve()
  const inTurn = (take: () => Promise<void>) => {
    taking = taking.then(() => (stop.signal.aborted || signal.aborted ? undefined : take()))
    return taking
  }
  async function take(record: StoredRecord): Promise<void> {
    if (!(await hasRoom(reader, signal))) {
      over.resolve('no room')
      stop.abort()
      return
    }
    if (signal.aborted) return
    const shown = await reader.show(record)
    next.set(record.partition, record.offset + 1)
    await reader.record(positionOf(opened), shown)
  }
  const following = await followRecords(opened.platform, topic, {
    ...readingOf(opened),
    frugal: true,
    onRecord: (record) => inTurn(() => take(record)),
    onBatch: (partition, end) =>
      inTurn(async () => {
        next.set(partition, end)
        await reader.passed?.(positionOf(opened))
      }),
    onEnd: over.reject,
  })
  const caughtUp = following.ready.then(async () => {
    await taking
    await reader.caughtUp?.()
    if (!follow) over.resolve('over')
  })
  // Closed before it had caught up, it says so; what the reader throws ends the stream.
  caughtUp.catch((error: unknown) => (stop.signal.aborted ? undefined : over.reject(error)))
  if (signal.aborted) over.resolve('over')
  try {
    return await over.promise
  } finally {
    stop.abort()
    // It ends behind what the reader has begun. A fault of it is thrown already.
    await following.close().catch(() => {})
    await taking.catch(() => {})
  }
}

async function hasRoom(
  { room }: Pick<StreamedRecords<unknown>, 'room'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (!room) return true
  const roomy = room().then(() => true)
  const late = sleep(roomlessMs, signal).then(() => false)
  return Promise.race([roomy, late])
}

/** What both ways of reading have in common. */
export function readingOf(
  opened: OpenedRecords,
): Pick<FollowRecords, 'misplaced' | 'fetchBytesMax'> & { from: (range: PartitionRange) => number } {
  const { next } = opened
  let ranges: PartitionRange[] = []
  return {
    fetchBytesMax,
    from(range) {
      ranges = [...ranges, range]
      return next.get(range.partition) ?? range.start
    },
    misplaced: (problem) => outside(opened, problem, ranges),
  }
}

/** Decoded, as programs get it: nothing is cut. Bytes of internal topics may hold what is nobody's. */
export async function shownOf(
  { platform, topic, withheld }: OpenedRecords,
  record: StoredRecord,
): Promise<ShownRecord> {
  const bytes = topic.public ? 'base64' : 'size'
  const shown = await showRecord(platform.codec, topic, record, { bytes, wholly: true })
  return withheld.length === 0 ? shown : { ...shown, value: without(shown.value, withheld) }
}

function without(value: unknown, fields: readonly string[]): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).filter(([name]) => !fields.includes(name)))
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

/** Bytes of stored records; their texts are about as long. */
const keptBytes = budgets.streams.textBytes

export interface RecordTexts {
  /** As `shownOf`. */
  of(opened: OpenedRecords, record: StoredRecord): Promise<string>
}

export function createRecordTexts(maxSize = keptBytes): RecordTexts {
  const texts = new LRUCache<string, Promise<string>>({ maxSize })
  return {
    of(opened, record) {
      const { name, epoch, withheld } = opened
      const place = `${name}/${epoch}/${record.partition}/${record.offset}/${record.timestamp}`
      const key = `${place}/${withheld.join()}`
      const known = texts.get(key)
      if (known) return known
      const text = shownOf(opened, record).then((shown) => JSON.stringify(shown))
      texts.set(key, text, { size: recordBytes(record) + 1 })
      text.catch(() => texts.delete(key))
      return text
    },
  }
}
