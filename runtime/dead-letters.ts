/** The life of a dead letter after it was written: listed, shown, replayed into its topic, or discarded. */

import { randomUUID } from 'node:crypto'
import type { EventLog, NewRecord, StoredRecord } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type { DeadLetter } from '#schemas/types.ts'
import { catalog, deadLettersOf } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import { originHeader, valueLostHeader } from './consumer/parking.ts'
import { readRange } from './consumer/read-range.ts'
import { type Codec, headerNames, type Position, type Publisher } from './messages.ts'

export interface DeadLetterDependencies {
  eventLog: EventLog
  codec: Codec
  publisher: Publisher
  /** Default: the topics of the catalogue that have dead letters. */
  topics?: readonly Topic[]
}

/** Names a dead letter: its topic, and `<group>/<partition>/<offset>` of the record that was parked. */
export interface DeadLetterName {
  topic: string
  key: string
}

export interface ListedDeadLetter extends DeadLetterName {
  group: string
  partition: number
  offset: number
  /** The parked record's own key. */
  recordKey: string | null
  /** Length of its value; null for a tombstone. */
  valueBytes: number | null
  headers: Record<string, string>
  reason: string
  attempts: number
  parkedAt: Date
}

export interface ShownDeadLetter extends ListedDeadLetter {
  /** The record's bytes as they were. */
  value: Buffer | null
}

/** Header of a replayed record: the dead letter that it was. */
export const replayedFromHeader = 'replayed-from'
/** Dead letters of one topic that are listed; of more, the newest. */
export const listedMax = 10_000
const rangeTimeoutMs = 60_000

interface Found extends ShownDeadLetter {
  /** The physical topic that the position belongs to. */
  origin: string | undefined
  recordKeyBytes: Buffer | null
  valueLost: boolean
}

/** Dead letters of a topic, or of all, oldest first; `key` keeps those of one record key or of that very name. */
export async function listDeadLetters(
  dependencies: DeadLetterDependencies,
  filter: { topic?: string; key?: string } = {},
): Promise<ListedDeadLetter[]> {
  const topics =
    filter.topic === undefined ? parkedTopics(dependencies) : [topicNamed(dependencies, filter.topic)]
  const listed: ListedDeadLetter[] = []
  for (const { name } of topics) {
    const found = await collectDeadLetters(dependencies, name, async (letter) => {
      const wanted = filter.key === undefined || filter.key === letter.key || filter.key === letter.recordKey
      return wanted ? withoutValue(letter) : null
    })
    listed.push(...found)
  }
  return listed.sort((a, b) => a.parkedAt.getTime() - b.parkedAt.getTime())
}

/** What `keep` makes of each dead letter of a topic, in one reading, oldest first; null leaves one out. */
export async function collectDeadLetters<T>(
  dependencies: DeadLetterDependencies,
  topicName: string,
  keep: (letter: ShownDeadLetter) => Promise<T | null>,
): Promise<T[]> {
  const topic = topicNamed(dependencies, topicName)
  const found = new Map<string, T>()
  await readLetters(dependencies, topic, async (key, record) => {
    found.delete(key)
    const kept = record.value === null ? null : await keep(await readLetter(dependencies, topic, record))
    if (kept !== null) found.set(key, kept)
    if (found.size > listedMax) found.delete(found.keys().next().value!)
  })
  return [...found.values()]
}

/** One dead letter with its value. Throws AppError `dead_letter_not_found`. */
export async function showDeadLetter(
  dependencies: DeadLetterDependencies,
  name: DeadLetterName,
): Promise<ShownDeadLetter> {
  const { origin, recordKeyBytes, valueLost, ...shown } = await find(dependencies, name)
  return shown
}

/**
 * Publishes the record again, byte for byte, under a new event id, then removes the dead letter. It goes behind all that
 * its key has by now; into a compacted topic it is therefore refused (AppError `superseded`) when the key has a later
 * record. Throws `dead_letter_not_found`, `log_unavailable`, and `conflict` for a value that was too large to be kept.
 */
export async function replayDeadLetter(
  dependencies: DeadLetterDependencies,
  name: DeadLetterName,
): Promise<Position> {
  const { eventLog, publisher } = dependencies
  const topic = topicNamed(dependencies, name.topic)
  const letter = await find(dependencies, name)
  if (letter.valueLost)
    throw new AppError('conflict', 'The value was too large for the dead letters: it is not here.')
  const place = publisher.placeOf(topic)
  const partition =
    letter.recordKeyBytes === null ? letter.partition : partitionOf(letter.recordKeyBytes, place.partitions)
  const target = { eventLog, topic: place.physicalName, partition }
  const checkedTo = topic.cleanup === 'compact' ? await refuseSuperseded(target, letter) : null
  const offset = await eventLog.append(place.physicalName, partition, [recordOf(letter)])
  if (checkedTo !== null) await yieldToOvertaken(target, letter, checkedTo, offset)
  await removeDeadLetter(dependencies, topic, letter)
  return { partition, offset }
}

/** Removes a dead letter for good. Throws AppError `dead_letter_not_found`. */
export async function discardDeadLetter(
  dependencies: DeadLetterDependencies,
  name: DeadLetterName,
): Promise<void> {
  const letter = await find(dependencies, name)
  await removeDeadLetter(dependencies, topicNamed(dependencies, name.topic), letter)
}

interface Target {
  eventLog: EventLog
  /** Physical name. */
  topic: string
  partition: number
}

/** The record as it was, as a new event. */
function recordOf(letter: Found): NewRecord {
  return {
    key: letter.recordKeyBytes,
    value: letter.value,
    headers: {
      ...letter.headers,
      [headerNames.eventId]: randomUUID(),
      [replayedFromHeader]: `${letter.topic}/${letter.key}`,
    },
  }
}

/** Throws `superseded` when the key has a later record; answers with the end of what was looked at. */
async function refuseSuperseded(target: Target, letter: Found): Promise<number> {
  const range = (await target.eventLog.offsets(target.topic)).find(
    (one) => one.partition === target.partition,
  )!
  const comparable = letter.origin === target.topic && letter.partition === target.partition
  const from = comparable ? Math.max(range.start, letter.offset + 1) : range.start
  if (await latestOfKey(target, letter, from, range.end)) throw superseded()
  return range.end
}

/** A record of the key that was written between the look and the replay is the newer one: it is written again. */
async function yieldToOvertaken(
  target: Target,
  letter: Found,
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
  target: Target,
  letter: Found,
  from: number,
  to: number,
): Promise<StoredRecord | null> {
  let latest: StoredRecord | null = null
  const own = letter.headers[headerNames.eventId]
  const range = { topic: target.topic, partition: target.partition, from, to, timeoutMs: rangeTimeoutMs }
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

/** Leaves a tombstone where the dead letter was. */
export async function removeDeadLetter(
  { publisher }: Pick<DeadLetterDependencies, 'publisher'>,
  topic: Topic,
  letter: Pick<ListedDeadLetter, 'group' | 'partition' | 'offset'>,
): Promise<void> {
  const { group, partition, offset } = letter
  await publisher.publish(deadLettersOf(topic), [{ key: { group, partition, offset }, value: null }])
}

async function find(
  dependencies: DeadLetterDependencies,
  { topic: name, key }: DeadLetterName,
): Promise<Found> {
  const topic = topicNamed(dependencies, name)
  let last: StoredRecord | null = null
  await readLetters(dependencies, topic, async (found, record) => {
    if (found === key) last = record.value === null ? null : record
  })
  if (!last) throw new AppError('dead_letter_not_found', `${name} has no dead letter ${key.slice(0, 200)}.`)
  return await readLetter(dependencies, topic, last)
}

/** Visits every record of a topic's dead letters in order, tombstones included. */
async function readLetters(
  { eventLog, publisher }: DeadLetterDependencies,
  topic: Topic,
  visit: (key: string, record: StoredRecord) => Promise<void>,
): Promise<void> {
  let visited: Promise<void> = Promise.resolve()
  const name = publisher.placeOf(deadLettersOf(topic)).physicalName
  const tail = await eventLog.tail({
    topic: name,
    from: 'beginning',
    records(_, records) {
      visited = visited.then(async () => {
        for (const record of records) await visit(record.key?.toString() ?? '', record)
      })
      // Heard below; until then a fault must not count as unhandled.
      visited.catch(() => {})
    },
  })
  try {
    await tail.ready
    await visited
  } finally {
    await tail.close()
  }
}

async function readLetter(
  { codec }: DeadLetterDependencies,
  topic: Topic,
  record: StoredRecord,
): Promise<Found> {
  const message = await codec.decode(deadLettersOf(topic), record)
  const letter = message.value as DeadLetter
  return {
    topic: topic.name,
    key: message.key,
    group: letter.consumer_group,
    partition: letter.partition,
    offset: letter.offset,
    recordKey: letter.key === null ? null : letter.key.toString(),
    recordKeyBytes: letter.key,
    value: letter.value,
    valueBytes: letter.value === null ? null : letter.value.length,
    valueLost: valueLostHeader in message.headers,
    headers: letter.headers,
    reason: letter.reason,
    attempts: letter.attempts,
    parkedAt: new Date(letter.parked_at),
    origin: message.headers[originHeader],
  }
}

function withoutValue(letter: ShownDeadLetter): ListedDeadLetter {
  const { value, recordKeyBytes, valueLost, origin, ...listed } = letter as Found
  return listed
}

function parkedTopics({ topics = catalog }: DeadLetterDependencies): Topic[] {
  return topics.filter((topic) => topic.deadLetters)
}

function topicNamed(dependencies: DeadLetterDependencies, name: string): Topic {
  const topic = parkedTopics(dependencies).find((one) => one.name === name)
  if (!topic) throw new AppError('not_found', `${name.slice(0, 200)} is no topic with dead letters.`)
  return topic
}
