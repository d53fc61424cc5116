/** Which partition of webhooks.deliveries a target owns: one each, for as long as its row exists. */

import type { EventLog } from '#engines/event-log/port.ts'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { addPartitions, readLocation } from '#runtime/publish/added-partitions.ts'
import type { TopicLocation } from '#runtime/publish/messages.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'

const topic = webhooksDeliveries
/** Others may take a free partition at the same moment: each try sees one more of them. */
const triesMax = 1_000
/** While another process adds partitions. */
const growingMs = 50

export interface AssignmentParts {
  eventLog: EventLog
  relational: Relational
  /** Where the topics live, as this process knows it: follows when the topic grows. */
  locations: Map<string, TopicLocation>
}

/**
 * The target's partition; the first free one becomes it when it has none yet. When none is free, partitions are added
 * first. Any number of processes may ask at once: no target moves, and no two share. Throws AppError
 * `relational_engine_unavailable`, `log_unavailable`, or `conflict` when the topic may not grow any more.
 */
export async function assignPartition(parts: AssignmentParts, targetName: string): Promise<number> {
  for (let tries = 0; tries < triesMax; tries++) {
    const partition =
      (await readAssignment(parts.relational, targetName)) ?? (await takeFree(parts.relational, targetName))
    if (partition !== null) {
      await followGrowth(parts, partition)
      return partition
    }
    if (await someFree(parts.relational)) continue
    const grown = await addPartitions(parts, topic, someFree)
    if (grown) parts.locations.set(topic.name, grown)
    else await sleep(growingMs)
  }
  throw new AppError('conflict', 'Too many targets are taking partitions at once; try again.')
}

/** Target → partition, of every target that has one. */
export async function readAssignments(executor: SqlExecutor): Promise<Map<string, number>> {
  const { rows } = await executor.query<{ name: string; partition: number }>(
    'select name, partition from platform.webhook_targets order by partition',
  )
  return new Map(rows.map(({ name, partition }) => [name, partition]))
}

/**
 * Frees the target's partition for another one. Throws AppError `not_found`, or `conflict` while
 * records of the target wait in it. Remove the target from every targets file first, or it takes a partition again.
 * A relay that still has it in its file may write to the old partition for five seconds more.
 */
export async function forgetTarget(
  parts: AssignmentParts,
  targetName: string,
  group: string,
): Promise<number> {
  const partition = await readAssignment(parts.relational, targetName)
  if (partition === null)
    throw new AppError('not_found', `There is no target named ${targetName.slice(0, 64)}.`)
  const { physicalName } = await readLocation(parts.relational, topic)
  const [state, ranges] = await Promise.all([
    parts.eventLog.groupState(group, physicalName),
    parts.eventLog.offsets(physicalName),
  ])
  const range = ranges.find((one) => one.partition === partition)
  const position = state.committed.find((one) => one.partition === partition)?.offset ?? range?.start ?? 0
  const waiting = Math.max(0, (range?.end ?? 0) - position)
  if (waiting > 0) {
    throw new AppError(
      'conflict',
      `${waiting} records wait for ${targetName}: let them be delivered, or skip them, first.`,
    )
  }
  await parts.relational.query('delete from platform.webhook_targets where name = $1', [targetName])
  return partition
}

async function readAssignment(executor: SqlExecutor, name: string): Promise<number | null> {
  const { rows } = await executor.query<{ partition: number }>(
    'select partition from platform.webhook_targets where name = $1',
    [name],
  )
  return rows[0]?.partition ?? null
}

const freePartitions = `
  select free.p from platform.topics t, generate_series(0, t.partitions - 1) as free (p)
  where t.name = $1 and not exists (select 1 from platform.webhook_targets w where w.partition = free.p)
  order by free.p limit 1`

/** Null when nothing was free, or when another process was first with this partition or this target. */
async function takeFree(executor: SqlExecutor, name: string): Promise<number | null> {
  const { rows } = await executor.query<{ partition: number }>(
    `insert into platform.webhook_targets (name, partition)
     select $2, free.p from (${freePartitions}) as free
     on conflict do nothing returning partition`,
    [topic.name, name],
  )
  return rows[0]?.partition ?? null
}

async function someFree(executor: SqlExecutor): Promise<boolean> {
  return (await executor.query(freePartitions, [topic.name])).rowCount > 0
}

/** Another process may have added the partition. */
async function followGrowth({ relational, locations }: AssignmentParts, partition: number): Promise<void> {
  if (partition < (locations.get(topic.name)?.partitions ?? 0)) return
  locations.set(topic.name, await readLocation(relational, topic))
}
