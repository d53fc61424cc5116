/**
 * Puts the record of a dead letter back into its topic, byte for byte, and never over a later record of its key; or says
 * beforehand which letters would be refused for that.
 */

import { randomUUID } from 'node:crypto'
import type { Log, NewRecord, StoredRecord } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'
import { partitionOf } from '#lib/murmur2.ts'
import { readRange } from '../follow/read-records.ts'
import { headerNames, type Position } from '../publish/messages.ts'
import {
  type DeadLetter,
  type DeadLetterParts,
  type ListedDeadLetter,
  parkedTopic,
  removeDeadLetters,
} from './dead-letters.ts'

/** Header of a replayed record: the dead letter that it was. */
const replayedFromHeader = 'replayed-from'
const replayTimeoutMs = 60_000

/**
 * Publishes the record again, byte for byte, under a new event id, then removes the dead letter. It goes behind all that
 * its key has by now; into a compacted topic it is therefore refused (AppError `superseded`) when the key has a later
 * record. Throws `log_unavailable`, and `conflict` for a value that was too large to be kept.
 */
export async function replayDeadLetter(parts: DeadLetterParts, letter: DeadLetter): Promise<Position> {
  const { eventLog, publisher } = parts
  const topic = parkedTopic(parts, letter.topic)
  if (letter.valueLost)
    throw new AppError('conflict', 'The value was too large for the dead letters: it is not here.')
  const location = publisher.locationOf(topic)
  const partition =
    letter.recordKeyBytes === null
      ? letter.partition
      : partitionOf(letter.recordKeyBytes, location.partitions)
  const target = { eventLog, topic: location.physicalName, partition }
  const checkedTo = topic.cleanup === 'compact' ? await refuseSuperseded(target, letter) : null
  const offset = await eventLog.append(location.physicalName, partition, [recordOf(letter)])
  if (checkedTo !== null) await yieldToOvertaken(target, letter, checkedTo, offset)
  await removeDeadLetters(parts, letter.topic, [letter])
  return { partition, offset }
}

/** The headers of a letter's record when it is replayed; its event id must become a new one, else it is dropped as a repeat. */
export function replayHeaders(letter: DeadLetter): Record<string, string> {
  return { ...letter.headers, [replayedFromHeader]: `${letter.topic}/${letter.key}` }
}

interface Destination {
  eventLog: Log
  /** Physical name. */
  topic: string
  partition: number
}

/** The record as it was, as a new event. */
function recordOf(letter: DeadLetter): NewRecord {
  return {
    key: letter.recordKeyBytes,
    value: letter.value,
    headers: { ...replayHeaders(letter), [headerNames.eventId]: randomUUID() },
  }
}

/** Throws `superseded` when the key has a later record; resolves with the end of the checked records. */
async function refuseSuperseded(target: Destination, letter: DeadLetter): Promise<number> {
  const range = (await target.eventLog.offsets(target.topic)).find(
    (one) => one.partition === target.partition,
  )!
  const comparable = letter.originTopic === target.topic && letter.partition === target.partition
  const from = comparable ? Math.max(range.start, letter.offset + 1) : range.start
  if (await latestOfKey(target, letter, from, range.end)) throw superseded()
  return range.end
}

/** A record of the key that was written between the check and the replay is the newer one: it is written again. */
async function yieldToOvertaken(
  target: Destination,
  letter: DeadLetter,
  from: number,
  replayed: number,
): Promise<void> {
  const overtaken = await latestOfKey(target, letter, from, replayed)
  if (!overtaken) return
  const { key, value, headers } = overtaken
  await target.eventLog.append(target.topic, target.partition, [{ key, value, headers }])
  throw superseded()
}

/** The last record of the letter's key in a range that is not a copy of the letter's own. */
async function latestOfKey(
  target: Destination,
  letter: DeadLetter,
  from: number,
  to: number,
): Promise<StoredRecord | null> {
  let latest: StoredRecord | null = null
  const own = letter.headers[headerNames.eventId]
  const range = { topic: target.topic, partition: target.partition, from, to, timeoutMs: replayTimeoutMs }
  await readRange(target.eventLog, range, (record) => {
    if (record.key === null || letter.recordKeyBytes === null || !record.key.equals(letter.recordKeyBytes))
      return
    if (own === undefined || record.headers[headerNames.eventId] !== own) latest = record
  })
  return latest
}

function superseded(): AppError {
  return new AppError('superseded', 'The key has a later record: discard the dead letter.')
}

/** Records that are looked at for each partition; of more only the newest. */
const lookedAtMax = 100_000
const lookTimeoutMs = 20_000

type Letter = Pick<
  ListedDeadLetter,
  'topic' | 'key' | 'partition' | 'offset' | 'epoch' | 'recordKey' | 'headers'
>

export function nameOfLetter({ topic, key }: Pick<Letter, 'topic' | 'key'>): string {
  return `${topic} ${key}`
}

/** Throws AppError `log_unavailable`. Letters of topics that are not compacted are never superseded. */
export async function findSuperseded(parts: DeadLetterParts, letters: readonly Letter[]) {
  /** Their names, as `nameOfLetter` gives them. */
  const superseded = new Set<string>()
  /** Letters of which it is not known: too much was written since, and none of the newest records is of their keys. */
  let unknown = 0
  for (const [topicName, own] of Map.groupBy(letters, ({ topic }) => topic)) {
    const topic = parkedTopic(parts, topicName)
    if (topic.cleanup !== 'compact') continue
    const { physicalName, epoch, partitions } = parts.publisher.locationOf(topic)
    const ranges = new Map(
      (await parts.eventLog.offsets(physicalName)).map((one) => [one.partition, one] as const),
    )
    const places = own.map((letter) => placeOf(letter, partitions, epoch))
    for (const [partition, waiting] of Map.groupBy(places, (one) => one.partition)) {
      const range = ranges.get(partition)
      if (!range) continue
      const wanted = Math.max(range.start, Math.min(...waiting.map(({ after }) => after)))
      const from = Math.max(wanted, range.end - lookedAtMax)
      const byKey = Map.groupBy(waiting, ({ recordKey }) => recordKey)
      const read = { topic: physicalName, partition, from, to: range.end, timeoutMs: lookTimeoutMs }
      await readRange(parts.eventLog, read, ({ key, offset, headers }) => {
        for (const one of byKey.get(key?.toString('utf8') ?? null) ?? []) {
          const isCopy = one.eventId !== undefined && one.eventId === headers[headerNames.eventId]
          if (offset >= one.after && !isCopy) superseded.add(one.name)
        }
      })
      unknown += waiting.filter(
        ({ name, after }) => !superseded.has(name) && Math.max(after, range.start) < from,
      ).length
    }
  }
  return { superseded, unknown }
}

/** Where its replay would go, and behind which offset a record of its key would be a later one. */
function placeOf(letter: Letter, partitions: number, epoch: number) {
  const { recordKey, headers } = letter
  const partition = recordKey === null ? letter.partition : partitionOf(Buffer.from(recordKey), partitions)
  const isComparable = letter.epoch === epoch && letter.partition === partition
  const after = isComparable ? letter.offset + 1 : 0
  return { name: nameOfLetter(letter), recordKey, eventId: headers[headerNames.eventId], partition, after }
}
