/**
 * Partitions for a topic whose partitions are owned by rows, while it is written and read: added to the log, with the
 * place where each reader group begins in them, before anybody hears of them.
 */

import type { EventLog, PartitionRange } from '#engines/event-log/port.ts'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { Topic } from '#topics/topic.ts'
import type { TopicPlace } from './messages.ts'

export const partitionsMax = 1_024
/** Brokers hear of new partitions a moment after the controller made them. */
const heardOfMsMax = 10_000
const heardOfPollMs = 50

export interface AddedPartitionsParts {
  eventLog: EventLog
  relational: Relational
}

interface Row {
  physical_name: string
  epoch: number
  partitions: number
}

/**
 * Adds as many partitions as the topic began with, unless `enough` (asked under the lock of the topic's row) says that
 * there are enough by now; what another instance began is finished. Resolves with the topic's place, or null while
 * another instance is at it: then look again in a moment. Throws AppError `conflict` when the topic has as many as it
 * may have.
 */
export function addPartitions(
  { eventLog, relational }: AddedPartitionsParts,
  topic: Topic,
  enough: (tx: SqlExecutor) => Promise<boolean>,
): Promise<TopicPlace | null> {
  return relational.transaction(async (tx) => {
    const row = await lockRow(tx, topic)
    if (row === null) return null
    const present = (await eventLog.offsets(row.physical_name)).length
    const unfinished = present > row.partitions
    if (!unfinished && (await enough(tx))) return placeOf(row)
    const partitions = unfinished ? roundedUp(present, topic.partitions) : row.partitions + topic.partitions
    if (partitions > partitionsMax) {
      throw new AppError('conflict', `${topic.name} has ${row.partitions} partitions, and may have no more.`)
    }
    if (present < partitions) await eventLog.addPartitions(row.physical_name, partitions)
    const ranges = await untilHeardOf(eventLog, row.physical_name, partitions)
    await writeBeginnings(tx, topic, ranges.slice(row.partitions))
    await tx.query('update platform.topics set partitions = $2 where name = $1', [topic.name, partitions])
    return placeOf({ ...row, partitions })
  })
}

/** Where the topic lives now, as its row says. */
export async function readPlace(executor: SqlExecutor, topic: Topic): Promise<TopicPlace> {
  const { rows } = await executor.query<Row>(
    'select physical_name, epoch, partitions from platform.topics where name = $1',
    [topic.name],
  )
  return placeOf(rows[0] as Row)
}

/**
 * For a consumer's `onAssigned`: positions for gained partitions that were added while the group ran. Once a position of
 * theirs was committed their rows go, so that one which is lost later is a fault, and no start.
 */
export function handOverAdded(relational: Relational, topic: Topic, group: string) {
  return async (
    gained: { partition: number; committed: number | null }[],
  ): Promise<Map<number, number> | undefined> => {
    const added = gained.filter(({ partition }) => partition >= topic.partitions)
    const placed = added.filter(({ committed }) => committed !== null).map(({ partition }) => partition)
    const unplaced = added.filter(({ committed }) => committed === null).map(({ partition }) => partition)
    if (placed.length > 0) {
      await relational.query(
        'delete from platform.added_partitions where topic = $1 and reader_group = $2 and partition = any($3::int[])',
        [topic.name, group, placed],
      )
    }
    if (unplaced.length === 0) return undefined
    const { rows } = await relational.query<{ partition: number; offset: number }>(
      `select partition, "offset" from platform.added_partitions
       where topic = $1 and reader_group = $2 and partition = any($3::int[])`,
      [topic.name, group, unplaced],
    )
    return new Map(rows.map((row) => [row.partition, row.offset]))
  }
}

/** Null when another transaction has it: nobody waits for it here, with a connection in hand. */
async function lockRow(tx: SqlExecutor, topic: Topic): Promise<Row | null> {
  const { rows } = await tx.query<Row>(
    'select physical_name, epoch, partitions from platform.topics where name = $1 for update skip locked',
    [topic.name],
  )
  return rows[0] ?? null
}

function roundedUp(count: number, step: number): number {
  return Math.ceil(count / step) * step
}

async function untilHeardOf(eventLog: EventLog, name: string, partitions: number): Promise<PartitionRange[]> {
  for (const end = Date.now() + heardOfMsMax; ; await sleep(heardOfPollMs)) {
    const ranges = await eventLog.offsets(name)
    if (ranges.length >= partitions) return ranges.toSorted((a, b) => a.partition - b.partition)
    if (Date.now() > end)
      throw new AppError('log_unavailable', 'The log has not made the new partitions yet.')
  }
}

async function writeBeginnings(tx: SqlExecutor, topic: Topic, added: PartitionRange[]): Promise<void> {
  for (const reader of topic.readers) {
    if (!('group' in reader)) continue
    await tx.query(
      `insert into platform.added_partitions (topic, reader_group, partition, "offset")
       select $1, $2, p, o from unnest($3::int[], $4::bigint[]) as added (p, o)
       on conflict do nothing`,
      [topic.name, reader.group, added.map(({ partition }) => partition), added.map(({ start }) => start)],
    )
  }
}

function placeOf(row: Row): TopicPlace {
  return { physicalName: row.physical_name, epoch: row.epoch, partitions: row.partitions }
}
