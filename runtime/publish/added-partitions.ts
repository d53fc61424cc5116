/**
 * Adds partitions to a topic that is in use, where rows say who owns a partition: the log gets them together with the
 * position at which each reader group begins, before any process learns of them.
 */

import type { Log, LogAdmin, PartitionRange } from '#engines/event-log/port.ts'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { Topic } from '#topics/topic.ts'
import type { TopicLocation } from './messages.ts'

const partitionsMax = 1_024
/** Brokers learn of new partitions a moment after the controller made them. */
const visibleMsMax = 10_000
const visiblePollMs = 50

/**
 * Adds as many partitions as the topic began with, unless `enough` (called under the lock of the topic's row) says that
 * there are enough by now; what another instance began is finished. Resolves with where the topic lives, or null while
 * another instance adds partitions: then try again in a moment. Throws AppError `conflict` when the topic has as many
 * as it may have.
 */
export function addPartitions(
  { eventLog, relational }: { eventLog: Log & LogAdmin; relational: Relational },
  topic: Topic,
  enough: (tx: SqlExecutor) => Promise<boolean>,
): Promise<TopicLocation | null> {
  return relational.transaction(async (tx) => {
    // Waiting here while another transaction holds it would keep a connection busy.
    const row = await readRow(tx, topic.name, 'for update skip locked')
    if (!row) return null
    const present = (await eventLog.offsets(row.physicalName)).length
    const unfinished = present > row.partitions
    if (!unfinished && (await enough(tx))) return row
    const partitions = unfinished ? roundedUp(present, topic.partitions) : row.partitions + topic.partitions
    if (partitions > partitionsMax) {
      throw new AppError('conflict', `${topic.name} has ${row.partitions} partitions, and may have no more.`)
    }
    if (present < partitions) await eventLog.addPartitions(row.physicalName, partitions)
    const ranges = await untilVisible(eventLog, row.physicalName, partitions)
    await writeStartPositions(tx, topic, ranges.slice(row.partitions))
    await tx.query('update platform.topics set partitions = $2 where name = $1', [topic.name, partitions])
    return { ...row, partitions }
  })
}

/** Where the topic lives now, as its row says. */
export async function readLocation(executor: SqlExecutor, topic: Topic): Promise<TopicLocation> {
  return (await readRow(executor, topic.name))!
}

/** What platform.topics says about a topic; `lock` ends the statement. */
export async function readRow(
  executor: SqlExecutor,
  name: string,
  lock: '' | 'for update' | 'for update skip locked' = '',
): Promise<TopicLocation | undefined> {
  const { rows } = await executor.query<TopicLocation>(
    `select physical_name as "physicalName", epoch, partitions from platform.topics where name = $1 ${lock}`,
    [name],
  )
  return rows[0]
}

/**
 * For a consumer's `onAssigned`: positions for gained partitions that were added while the group ran. Their rows are
 * deleted once the group committed a position there, so that a position that is lost later is a fault, not a start.
 */
export function handOverAdded(relational: Relational, topic: Topic, group: string) {
  return async (
    gained: { partition: number; committed: number | null }[],
  ): Promise<Map<number, number> | undefined> => {
    const added = gained.filter(({ partition }) => partition >= topic.partitions)
    const started = added.filter(({ committed }) => committed !== null).map(({ partition }) => partition)
    const fresh = added.filter(({ committed }) => committed === null).map(({ partition }) => partition)
    if (started.length > 0) {
      await relational.query(
        'delete from platform.added_partitions where topic = $1 and reader_group = $2 and partition = any($3::int[])',
        [topic.name, group, started],
      )
    }
    if (fresh.length === 0) return undefined
    const { rows } = await relational.query<{ partition: number; offset: number }>(
      `select partition, "offset" from platform.added_partitions
       where topic = $1 and reader_group = $2 and partition = any($3::int[])`,
      [topic.name, group, fresh],
    )
    return new Map(rows.map((row) => [row.partition, row.offset]))
  }
}

function roundedUp(count: number, step: number): number {
  return Math.ceil(count / step) * step
}

/** Partitions that were just added have no offsets yet. Resolves with all ranges, by number; throws AppError `log_unavailable`. */
export async function untilVisible(
  eventLog: Log,
  name: string,
  partitions: number,
): Promise<PartitionRange[]> {
  for (const end = performance.now() + visibleMsMax; ; await sleep(visiblePollMs)) {
    const ranges = await eventLog.offsets(name)
    if (ranges.length >= partitions) return ranges.toSorted((a, b) => a.partition - b.partition)
    if (performance.now() > end)
      throw new AppError('log_unavailable', 'The log has not made the new partitions yet.')
  }
}

async function writeStartPositions(tx: SqlExecutor, topic: Topic, added: PartitionRange[]): Promise<void> {
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
