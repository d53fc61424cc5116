/**
 * Which partition of webhooks.deliveries a target owns: one each, for as long as its row exists. The relay remembers them, so
 * that firing at a known target needs no database.
 */

import type { Logger } from 'pino'
import type { EventLog } from '#engines/event-log/port.ts'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { addPartitions, readLocation } from '#runtime/publish/added-partitions.ts'
import type { TopicLocation } from '#runtime/publish/messages.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import type { WatchedTargets } from './targets-file.ts'

const topic = webhooksDeliveries
/** Others may take a free partition at the same moment: each try sees one more of them. */
const triesMax = 1_000
/** While another process adds partitions. */
const growingMs = 50

interface AssignmentParts {
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

/** How often the rows are read again: a forgotten target may have lost its partition to another one. */
const refreshEveryMs = 5_000
const assignTimeoutMs = deadlines.request.assignMs
const firstRefreshMsMax = 10_000

export type Assignments = Awaited<ReturnType<typeof openAssignments>>

/**
 * Gives every target of the file a partition, also those that are added later, before anything is fired at them.
 * Resolves when the present targets have theirs, or after ten seconds.
 */
export async function openAssignments(
  parts: AssignmentParts & { targets: Pick<WatchedTargets, 'current' | 'onChange'>; log: Logger },
) {
  const { targets, log } = parts
  const known = new Map<string, number>()
  const asking = new Map<string, Promise<number>>()
  const stop = new AbortController()

  function ask(target: string): Promise<number> {
    let call = asking.get(target)
    if (!call) {
      call = assignPartition(parts, target)
        .then((partition) => {
          known.set(target, partition)
          return partition
        })
        .finally(() => asking.delete(target))
      asking.set(target, call)
    }
    return call
  }
  async function refresh(): Promise<void> {
    if (known.size > 0) {
      const rows = await readAssignments(parts.relational)
      for (const [target, partition] of known) {
        if (rows.get(target) !== partition) known.delete(target)
      }
    }
    for (const target of targets.current().targets.keys()) {
      if (!known.has(target) && !stop.signal.aborted) await ask(target)
    }
  }
  const watching = { what: 'webhook assignments', everyMs: refreshEveryMs, signal: stop.signal, log }
  const first = Promise.withResolvers<void>()
  const refreshing = repeatUntil(watching, () => refresh().finally(first.resolve))
  targets.onChange(() => {
    // What fails here is tried again at the next refresh, and when an event is fired.
    if (!stop.signal.aborted) refresh().catch(() => {})
  })
  // Events that are fired right after the start find partitions; without a database the relay starts all the same.
  await Promise.race([first.promise, sleep(firstRefreshMsMax, stop.signal)])
  return {
    /** Null while it is not known. */
    known: (target: string) => known.get(target) ?? null,
    /** The partition that the target owns; assigned now when it has none. Throws AppError of an engine that is away. */
    async partitionOf(target: string): Promise<number> {
      const partition = known.get(target)
      if (partition !== undefined) return partition
      return withTimeout(
        ask(target),
        assignTimeoutMs,
        () => new AppError('relational_engine_unavailable', 'The target has no partition yet.'),
      )
    },
    async close(): Promise<void> {
      stop.abort()
      await refreshing
    },
  }
}
