/** Stores the durable events of runs, and notes what an attempt has shown. */

import type { SqlExecutor } from '#engines/relational/port.ts'

export const eventLimits = { events: 10_000, bytes: 32 * 1024 * 1024 } as const

export interface Held {
  runId: string
  epoch: number
}

export interface StoredPosition {
  seq: number
  /** Within the dispatch, for runs that belong to one. */
  goalSeq: number | null
  /** Somebody canceled the run: nobody joins it any more. */
  canceled: boolean
}

/**
 * Stores an event (JSON) under the run's present epoch, behind all others of its tree. Null when the run is not held
 * under this epoch any more, has ended, or has reached its bounds.
 */
export async function storeEvent(
  executor: SqlExecutor,
  { runId, epoch }: Held,
  event: string,
): Promise<StoredPosition | null> {
  const { rows } = await executor.query<StoredPosition>(statement, [
    runId,
    epoch,
    event,
    Buffer.byteLength(event),
  ])
  return rows[0] ?? null
}

const statement = `
with run as (
  update platform.runs set events = events + 1, event_bytes = event_bytes + $4::bigint, shown = true
  where run_id = $1 and epoch = $2 and status = 'running'
    and events < ${eventLimits.events} and event_bytes + $4::bigint <= ${eventLimits.bytes}
  returning root_run_id, goal_id, cancel_requested_at is not null as canceled),
tree as (
  update platform.run_trees t set last_event_id = t.last_event_id + 1 from run
  where t.root_run_id = run.root_run_id returning t.last_event_id),
dispatch as (
  update platform.dispatches d set last_event_id = d.last_event_id + 1 from run, tree
  where d.goal_id = run.goal_id returning d.last_event_id),
stored as (
  insert into platform.run_events (root_run_id, seq, run_id, goal_id, goal_seq, event)
  select run.root_run_id, tree.last_event_id, $1, run.goal_id, dispatch.last_event_id, $3
  from run cross join tree left join dispatch on true returning seq, goal_seq)
select stored.seq, stored.goal_seq as "goalSeq", run.canceled from stored cross join run`

/** Before the first partial event is published: from then on the attempt is not repeated. False as `storeEvent` gives null. */
export async function markShown(executor: SqlExecutor, { runId, epoch }: Held): Promise<boolean> {
  const { rowCount } = await executor.query(
    `update platform.runs set shown = true where run_id = $1 and epoch = $2 and status = 'running'`,
    [runId, epoch],
  )
  return rowCount === 1
}

/** True while the run is held under this epoch: an event that was refused has reached the bounds then. */
export async function isHeld(executor: SqlExecutor, { runId, epoch }: Held): Promise<boolean> {
  const { rows } = await executor.query(
    `select from platform.runs where run_id = $1 and epoch = $2 and status = 'running'`,
    [runId, epoch],
  )
  return rows.length === 1
}
