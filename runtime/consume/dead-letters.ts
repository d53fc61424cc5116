/** Dead letters in the log: written, listed, read and removed. What their records mean is not known here. */

import type { Logger } from 'pino'
import type { Log, StoredRecord } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'
import type { DeadLetter as DeadLetterValue } from '#schemas/types.ts'
import { catalog } from '#topics/catalog.ts'
import { type DeadLetterOrigin, deadLettersOf, epochOfLetter } from '#topics/dead-letters.ts'
import type { Topic } from '#topics/topic.ts'
import { readRecords } from '../follow/read-records.ts'
import type { Codec, Publisher } from '../publish/messages.ts'
import { retryUntilDone } from '../repeat.ts'

export interface DeadLetterParts {
  eventLog: Log
  codec: Codec
  publisher: Publisher
  /** Default: the topics of the catalogue that have dead letters. */
  topics?: readonly Topic[]
}

export interface ListedDeadLetter extends DeadLetterOrigin {
  topic: string
  /** `<group>/<partition>/<offset>` of the record that was parked, with `/<epoch>` behind it after the topic was grown. */
  key: string
  /** The parked record's own key. */
  recordKey: string | null
  /** Length of its value; null for a tombstone. */
  valueBytes: number | null
  headers: Record<string, string>
  reason: string
  attempts: number
  parkedAt: Date
}

export interface DeadLetter extends ListedDeadLetter {
  /** The record's bytes as they were; null for a tombstone, and where `valueLost`. */
  value: Buffer | null
  recordKeyBytes: Buffer | null
  /** True when the value was too large to be kept. */
  valueLost: boolean
  /** The physical topic that the position belongs to. */
  originTopic: string | undefined
}

/** Dead letters of one topic that are listed; of more, the newest. */
const listedMax = 10_000
const removedAtOnce = 500

/** Dead letters of a topic, or of all, oldest first; `key` keeps those of one record key or of that very name. */
export async function listDeadLetters(
  parts: DeadLetterParts,
  filter: { topic?: string; key?: string } = {},
): Promise<ListedDeadLetter[]> {
  const topics = filter.topic === undefined ? parkedTopics(parts) : [parkedTopic(parts, filter.topic)]
  const listed: ListedDeadLetter[] = []
  for (const { name } of topics) {
    const found = await collectDeadLetters(parts, name, async (letter) => {
      const wanted = filter.key === undefined || filter.key === letter.key || filter.key === letter.recordKey
      return wanted ? withoutRecord(letter) : null
    })
    listed.push(...found)
  }
  return listed.sort((a, b) => a.parkedAt.getTime() - b.parkedAt.getTime())
}

/** What `keep` makes of each dead letter of a topic, in one reading, oldest first; null leaves one out. */
export async function collectDeadLetters<T>(
  parts: DeadLetterParts,
  topicName: string,
  keep: (letter: DeadLetter) => Promise<T | null>,
): Promise<T[]> {
  const topic = parkedTopic(parts, topicName)
  const found = new Map<string, T>()
  await visitLetters(parts, topic, async (key, record) => {
    found.delete(key)
    const kept = record.value === null ? null : await keep(await decodeLetter(parts, topic, record))
    if (kept !== null) found.set(key, kept)
    if (found.size > listedMax) found.delete(found.keys().next().value!)
  })
  return [...found.values()]
}

/** The dead letters of a topic that have these keys, with their values; those that are gone are left out. */
export async function readDeadLetters(
  parts: DeadLetterParts,
  topicName: string,
  keys: readonly string[],
): Promise<Map<string, DeadLetter>> {
  const topic = parkedTopic(parts, topicName)
  const records = new Map<string, StoredRecord>()
  const wanted = new Set(keys)
  await visitLetters(parts, topic, async (key, record) => {
    if (!wanted.has(key)) return
    if (record.value === null) records.delete(key)
    else records.set(key, record)
  })
  const letters = new Map<string, DeadLetter>()
  for (const [key, record] of records) letters.set(key, await decodeLetter(parts, topic, record))
  return letters
}

/** Removes them for good: a tombstone is written for each. Throws AppError `log_unavailable`; some may be gone then. */
export async function removeDeadLetters(
  parts: Pick<DeadLetterParts, 'publisher' | 'topics'>,
  topicName: string,
  origins: readonly DeadLetterOrigin[],
): Promise<void> {
  const letters = deadLettersOf(parkedTopic(parts, topicName))
  for (let from = 0; from < origins.length; from += removedAtOnce) {
    const tombstones = origins
      .slice(from, from + removedAtOnce)
      .map((origin) => ({ key: origin, value: null }))
    await parts.publisher.publish(letters, tombstones)
  }
}

/** Visits every record of a topic's dead letters in order, tombstones included. */
async function visitLetters(
  { eventLog, publisher }: DeadLetterParts,
  topic: Topic,
  visit: (key: string, record: StoredRecord) => Promise<void>,
): Promise<void> {
  await readRecords({
    eventLog,
    topic: publisher.locationOf(deadLettersOf(topic)).physicalName,
    startOf: ({ start }) => start,
    signal: new AbortController().signal,
    async records(records) {
      for (const record of records) {
        if (!record.hidden) await visit(record.key?.toString() ?? '', record)
      }
    },
  })
}

async function decodeLetter(
  { codec }: DeadLetterParts,
  topic: Topic,
  record: StoredRecord,
): Promise<DeadLetter> {
  const message = await codec.decode(deadLettersOf(topic), record)
  const letter = message.value as DeadLetterValue
  return {
    topic: topic.name,
    key: message.key,
    group: letter.consumer_group,
    partition: letter.partition,
    offset: letter.offset,
    epoch: epochOfLetter(message.key),
    recordKey: letter.key === null ? null : letter.key.toString(),
    valueBytes: letter.value === null ? null : letter.value.length,
    headers: letter.headers,
    reason: letter.reason,
    attempts: letter.attempts,
    parkedAt: new Date(letter.parked_at),
    value: letter.value,
    recordKeyBytes: letter.key,
    valueLost: valueLostHeader in message.headers,
    originTopic: message.headers[originHeader],
  }
}

function withoutRecord(letter: DeadLetter): ListedDeadLetter {
  const { value, recordKeyBytes, valueLost, originTopic, ...listed } = letter
  return listed
}

function parkedTopics({ topics = catalog }: Pick<DeadLetterParts, 'topics'>): Topic[] {
  return topics.filter((topic) => topic.deadLetters)
}

/** Throws AppError `not_found` for a topic without dead letters. */
export function parkedTopic(parts: Pick<DeadLetterParts, 'topics'>, name: string): Topic {
  const topic = parkedTopics(parts).find((one) => one.name === name)
  if (!topic) throw new AppError('not_found', `${name.slice(0, 200)} is no topic with dead letters.`)
  return topic
}

export interface Parked {
  record: StoredRecord
  reason: string
  /** Tries that failed. */
  attempts: number
}

/** Why a record without a message is parked. */
export function undecodable(fault: string): string {
  return `it cannot be decoded: ${fault}`
}

interface Parking {
  group: string
  topic: Topic
  publisher: Publisher
  log: Logger
  keptOf?: ((record: StoredRecord) => StoredRecord | Promise<StoredRecord>) | undefined
}

/** Header of a dead letter: the physical topic that its position belongs to. */
const originHeader = 'origin-topic'
/** Header of a dead letter whose record was too large to be kept in it: the value is not there. */
const valueLostHeader = 'value-lost'
const reasonCharactersMax = 2_000

/** Resolves true when the dead letters are durable, false when `signal` aborted first. */
export async function park(parked: Parked[], parking: Parking, signal: AbortSignal): Promise<boolean> {
  for (const { record, reason, attempts } of parked) {
    parking.log.error({ ...positionOf(record), reason, attempts }, 'consumer.record-parked')
  }
  if (!parking.topic.deadLetters) {
    parking.log.error({ topic: parking.topic.name }, 'consumer.record-skipped')
    return !signal.aborted
  }
  for (const entry of parked) {
    if (
      !(await retryUntilDone('publishing a dead letter', () => publish(entry, parking), signal, parking.log))
    )
      return false
  }
  return true
}

async function publish(parked: Parked, parking: Parking): Promise<void> {
  const entry = parking.keptOf ? { ...parked, record: await parking.keptOf(parked.record) } : parked
  try {
    await publishLetter(entry, entry.reason, false, parking)
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'payload_too_large') throw error
    const { partition, offset } = entry.record
    const where = `its value is too large to be kept here; it remains at ${partition}/${offset}`
    await publishLetter(entry, `${entry.reason} (${where})`, true, parking)
  }
}

async function publishLetter(
  { record, attempts }: Parked,
  reason: string,
  valueLost: boolean,
  { group, topic, publisher }: Parking,
): Promise<void> {
  const { epoch, physicalName } = publisher.locationOf(topic)
  await publisher.publish(deadLettersOf(topic), [
    {
      key: { group, epoch, ...positionOf(record) },
      value: {
        topic: topic.name,
        partition: record.partition,
        offset: record.offset,
        consumer_group: group,
        key: record.key,
        value: valueLost ? null : record.value,
        headers: record.headers,
        reason: reason.slice(0, reasonCharactersMax).toWellFormed(),
        attempts,
        parked_at: Date.now(),
      },
      headers: {
        [originHeader]: physicalName,
        ...(valueLost ? { [valueLostHeader]: 'true' } : {}),
      },
    },
  ])
}

function positionOf(record: StoredRecord): { partition: number; offset: number } {
  return { partition: record.partition, offset: record.offset }
}
