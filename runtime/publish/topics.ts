/** Creates the topics of the catalogue with the initial positions of their readers, or checks those that exist. */

import type { Logger } from 'pino'
import type { EventLog, TopicSpec } from '#engines/event-log/port.ts'
import { type Relational, type SqlExecutor, sqlState } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { untilThere } from '#runtime/repeat.ts'
import { catalog } from '#topics/catalog.ts'
import { deadLetterSuffix } from '#topics/dead-letters.ts'
import type { Topic } from '#topics/topic.ts'
import { addPartitions, readRow } from './added-partitions.ts'
import type { TopicLocation } from './messages.ts'

const mebibyte = 1024 * 1024
const minute = 60_000
const day = 86_400_000
/** A broker learns of a new topic a moment after the controller made it: until then it says that there is none. */
const unknownMsMax = 5_000
const unknownPollMs = 100
/** While another instance adds partitions. */
const growingMs = 100
/** query_canceled, lock_not_available, serialization_failure, deadlock_detected: another instance is working on it. */
const passingStates = new Set(['57014', '55P03', '40001', '40P01'])

interface EnsureTopicsParts {
  eventLog: EventLog
  relational: Relational
  log: Logger
  /** Default: the whole catalogue. */
  topics?: readonly Topic[]
  /** Ends the waiting for engines that are away; the error of the last try is thrown then. */
  signal?: AbortSignal
}

/**
 * Makes sure that every topic and the initial positions of its group readers (the beginning of the log) exist, and
 * returns where each topic lives. Any number of instances may call it at once. Waits while the log or the database is
 * away. Throws AppError `topic_mismatch` when a topic is not what the catalogue and the remembered rows say.
 */
export async function ensureTopics(parts: EnsureTopicsParts): Promise<Map<string, TopicLocation>> {
  const locations = new Map<string, TopicLocation>()
  for (const topic of parts.topics ?? catalog) {
    const waiting = { what: `topic ${topic.name}`, log: parts.log, signal: parts.signal, isPassing }
    locations.set(topic.name, await untilThere(waiting, () => ensureTopic(parts, topic)))
  }
  return locations
}

/** An engine is away, or another instance holds the row. */
function isPassing(error: unknown): boolean {
  return isUnavailable(error) || passingStates.has(sqlState(error) ?? '')
}

/** Topics of the catalogue that `ensureTopics` would make, or give readers; changes nothing. */
export async function missingTopics(executor: SqlExecutor): Promise<string[]> {
  const missing: string[] = []
  for (const topic of catalog) {
    const isThere =
      (await readRow(executor, topic.name)) && (await missingReaders(executor, topic)).length === 0
    if (!isThere) missing.push(topic.name)
  }
  return missing
}

/** How a topic of the catalogue is kept, under its physical name. */
export function topicSpecOf(topic: Topic, location: Omit<TopicLocation, 'epoch'>): TopicSpec {
  const compacted = topic.cleanup === 'compact'
  return {
    name: location.physicalName,
    partitions: location.partitions,
    cleanup: topic.cleanup,
    retentionMs: topic.retentionMs,
    tombstoneRetentionMs: 30 * day,
    // The active segment is neither compacted nor expired: small ones keep both close to the promise.
    segmentBytes: 64 * mebibyte,
    segmentMs: compacted ? 10 * minute : 6 * 60 * minute,
    // A dead letter carries a whole record of its topic.
    recordBytesMax: topic.name.endsWith(deadLetterSuffix) ? 3 * mebibyte : 2 * mebibyte,
  }
}

async function ensureTopic(parts: EnsureTopicsParts, topic: Topic): Promise<TopicLocation> {
  const known = await readRow(parts.relational, topic.name)
  if (known && (await missingReaders(parts.relational, topic)).length === 0) {
    const actual = await describeExisting(parts, known.physicalName)
    if (isBeingGrown(topic, known, actual)) {
      // Finishes what another instance began, or waits for it; adds nothing of its own.
      const grown = await addPartitions(parts, topic, () => Promise.resolve(true))
      if (grown) return grown
      await sleep(growingMs, parts.signal)
      if (parts.signal?.aborted)
        throw new AppError('shutting_down', `Partitions are being added to ${topic.name}.`)
      return ensureTopic(parts, topic)
    }
    checkTopic(parts, topic, known, actual)
    return known
  }
  // The row is locked until topic and positions exist: one instance creates them, the others wait and check.
  return parts.relational.transaction(async (tx) => {
    const { rowCount } = await tx.query(
      `insert into platform.topics (name, physical_name, partitions) values ($1, $1, $2)
       on conflict (name) do nothing`,
      [topic.name, topic.partitions],
    )
    const row = (await readRow(tx, topic.name, 'for update'))!
    if (rowCount === 1) await parts.eventLog.createTopic(topicSpecOf(topic, row))
    checkTopic(parts, topic, row, await describeExisting(parts, row.physicalName))
    for (const group of await missingReaders(tx, topic)) {
      await writeInitialPositions(parts.eventLog, group, row.physicalName)
      await tx.query('insert into platform.readers (topic, reader_group) values ($1, $2)', [
        topic.name,
        group,
      ])
      parts.log.debug({ topic: topic.name, group }, 'topics.reader-made')
    }
    return row
  })
}

/** An instance that adds partitions has not written the row yet, or died before it could. */
function isBeingGrown(topic: Topic, row: TopicLocation, actual: TopicSpec | null): boolean {
  if (!topic.owned || actual === null) return false
  return actual.partitions > row.partitions && actual.partitions % topic.partitions === 0
}

async function missingReaders(executor: SqlExecutor, topic: Topic): Promise<string[]> {
  const groups = topic.readers.flatMap((reader) => ('group' in reader ? [reader.group] : []))
  if (groups.length === 0) return []
  const { rows } = await executor.query<{ reader_group: string }>(
    'select reader_group from platform.readers where topic = $1',
    [topic.name],
  )
  const made = new Set(rows.map((row) => row.reader_group))
  return groups.filter((group) => !made.has(group))
}

/** The beginning for every partition without a position: an earlier try may have written some. */
async function writeInitialPositions(eventLog: EventLog, group: string, physicalName: string): Promise<void> {
  const { committed } = await eventLog.groupState(group, physicalName)
  const written = new Set(committed.map((position) => position.partition))
  const positions = (await eventLog.offsets(physicalName))
    .filter((range) => !written.has(range.partition))
    .map((range) => ({ partition: range.partition, offset: range.start }))
  if (positions.length > 0) await eventLog.setPositions(group, physicalName, positions)
}

function checkTopic(
  parts: EnsureTopicsParts,
  topic: Topic,
  row: TopicLocation,
  actual: TopicSpec | null,
): void {
  if (!actual) {
    throw mismatch(
      topic,
      `it was created before and is gone from the log. Restore the log's data; or, to start with an empty topic and lose what it held, delete the topic's rows from platform.topics and platform.readers`,
    )
  }
  if (actual.cleanup !== topic.cleanup) {
    throw mismatch(
      topic,
      `its cleanup policy is ${actual.cleanup} and must be ${topic.cleanup}. Set cleanup.policy=${topic.cleanup} on ${row.physicalName}`,
    )
  }
  checkPartitions(topic, row, actual)
  warnOfSmallDifferences(parts.log, topic, topicSpecOf(topic, row), actual)
}

/** Null only when the topic is certainly gone. */
async function describeExisting(
  { eventLog, signal }: EnsureTopicsParts,
  physicalName: string,
): Promise<TopicSpec | null> {
  const end = performance.now() + (eventLog.driver === 'kafka' ? unknownMsMax : 0)
  for (;;) {
    const actual = await eventLog.describeTopic(physicalName)
    if (actual || performance.now() >= end || signal?.aborted) return actual
    await sleep(unknownPollMs, signal)
  }
}

/** The platform itself may have grown a topic beyond the catalogue: then its row says so. */
function checkPartitions(topic: Topic, row: TopicLocation, actual: TopicSpec): void {
  if (actual.partitions !== row.partitions) {
    throw mismatch(
      topic,
      `it has ${actual.partitions} partitions and must have ${row.partitions}, because keys would change their partition. Create it again with ${row.partitions}; to get more use \`flotilla topics grow\``,
    )
  }
  if (row.partitions < topic.partitions) {
    throw mismatch(
      topic,
      `it has ${row.partitions} partitions and the catalogue asks for ${topic.partitions}. Run \`flotilla topics grow ${topic.name}\``,
    )
  }
}

function mismatch(topic: Topic, difference: string): AppError {
  return new AppError('topic_mismatch', `Topic ${topic.name}: ${difference}.`)
}

/** Differences that only shift times and sizes are logged, and left as the operators set them. */
function warnOfSmallDifferences(log: Logger, topic: Topic, wanted: TopicSpec, actual: TopicSpec): void {
  const kept = topic.cleanup === 'compact' ? 'tombstoneRetentionMs' : 'retentionMs'
  for (const key of ['recordBytesMax', kept] as const) {
    if (wanted[key] === actual[key]) continue
    log.warn(
      { topic: topic.name, setting: key, is: actual[key], catalogue: wanted[key] },
      'topics.setting-differs',
    )
  }
}
