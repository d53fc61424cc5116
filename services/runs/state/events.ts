/** Stores the durable events of runs, and notes what an attempt has shown. */

import type { SqlExecutor } from '#engines/relational/port.ts'

const eventLimits = { events: 10_000, bytes: 32 * 1024 * 1024 } as const

interface Held {
  runId: string
  epoch: number
}

/** What the writer of an event knows: with it a statement that is sent again stores nothing twice. */
interface NewEvent {
  /** JSON. */
  event: string
  /** Durable events of the run so far. */
  before: number
}

export interface StoredPosition {
  seq: number
  /** Within the dispatch, for runs that belong to one. */
  goalSeq: number | null
  /** Somebody canceled the run: nobody joins it any more. */
  canceled: boolean
}

/**
 * Stores an event under the run's present epoch, behind all others of its tree. Null when the run is not held under this
 * epoch any more, has ended, has reached its bounds, or has the event already: `eventRefused` says which.
 */
export async function storeEvent(
  executor: SqlExecutor,
  { runId, epoch }: Held,
  given: NewEvent,
): Promise<StoredPosition | null> {
  const [stored = null] = await storeEvents(executor, [{ runId, epoch, ...given }])
  return stored
}

/** Why `storeEvent` gave null; the position of an event that was stored after all. */
export async function eventRefused(
  executor: SqlExecutor,
  { runId, epoch }: Held,
  { before }: NewEvent,
): Promise<'not_held' | 'too_many' | StoredPosition> {
  const { rows } = await executor.query<StoredPosition & { events: number }>(
    `select r.events, e.seq, e.goal_seq as "goalSeq", r.cancel_requested_at is not null as canceled
     from platform.runs r left join platform.run_events e on e.root_run_id = r.root_run_id and e.run_id = r.run_id
     where r.run_id = $1 and r.epoch = $2 and r.status = 'running' order by e.seq desc nulls last limit 1`,
    [runId, epoch],
  )
  const row = rows[0]
  if (!row) return 'not_held'
  return row.events > before ? row : 'too_many'
}

export interface EventOfRun extends Held, NewEvent {}

/** As `storeEvent` for each, in one statement. */
export async function storeEvents(
  executor: SqlExecutor,
  given: EventOfRun[],
): Promise<(StoredPosition | null)[]> {
  const { rows } = await executor.query<StoredPosition & { n: number }>(
    `select n, p.seq, p.goal_seq as "goalSeq", p.canceled
     from unnest($1::text[], $2::bigint[], $3::text[], $4::integer[]) with ordinality as g (run_id, epoch, event, before, n)
     cross join lateral platform.store_run_event(
       g.run_id, g.epoch, g.event, g.before, ${eventLimits.events}, ${eventLimits.bytes}) p`,
    [
      given.map(({ runId }) => runId),
      given.map(({ epoch }) => epoch),
      given.map(({ event }) => event),
      given.map(({ before }) => before),
    ],
  )
  const stored = new Map(rows.map(({ n, ...position }) => [n, position]))
  return given.map((_, n) => {
    const position = stored.get(n + 1)
    return position?.seq == null ? null : position
  })
}

/** Before the first partial event is published: from then on the attempt is not repeated. False as `storeEvent` gives null. */
export async function markShown(executor: SqlExecutor, { runId, epoch }: Held): Promise<boolean> {
  const { rowCount } = await executor.query(
    `update platform.runs set shown = true where run_id = $1 and epoch = $2 and status = 'running'`,
    [runId, epoch],
  )
  return rowCount === 1
}
