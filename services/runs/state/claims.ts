/**
 * Which dispatcher runs a run: claiming, renewing and giving back, all by conditions on lease and epoch. And how dispatchers are
 * notified before they look into the rows: by a notice of the database, or at once where a gateway and the dispatcher are one
 * process. There a run is claimed by the commit that accepts it, and its events reach their readers with the commit that stores
 * them; the log brings the same to all others.
 */

import { type Relational, type SqlExecutor, sqlState } from '#engines/relational/port.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { type ClaimedRun, claimedColumns } from './types.ts'

interface ClaimRequest {
  slug: string
  /** Runs of the node at once, over all dispatchers. */
  concurrency: number
  /** Name of this dispatcher. */
  holder: string
  leaseMs: number
  /** Runs that this dispatcher takes on at most. */
  max: number
}

const uniqueViolation = '23505'

/**
 * Claims queued runs of lanes that have none running, as long as the node has free slots: in turns over callers, the oldest
 * of each first.
 */
export async function claimRuns(executor: SqlExecutor, request: ClaimRequest): Promise<ClaimedRun[]> {
  try {
    const { rows } = await executor.query<ClaimedRun>(
      // Nothing may be joined: what the function has waited for is not there yet for the statement that calls it.
      `select ${claimedColumns} from platform.claim_runs($1, $2, $3, $4, $5) r order by r.id`,
      [request.slug, request.concurrency, request.max, request.holder, request.leaseMs],
    )
    return rows
  } catch (error) {
    // A run of a lane was accepted under a lower id while a later one of it was claimed: the lane is busy after all.
    if (sqlState(error) === uniqueViolation) return []
    throw error
  }
}

/** A run of which this dispatcher still has the lease. */
interface Renewed {
  runId: string
  epoch: number
  canceled: boolean
}

/** Renews the named runs; a run missing in the answer is no longer this dispatcher's. */
export async function renewRuns(
  executor: SqlExecutor,
  { holder, runIds, leaseMs }: { holder: string; runIds: string[]; leaseMs: number },
): Promise<Renewed[]> {
  const { rows } = await executor.query<Renewed>(
    `update platform.runs set lease_until = clock_timestamp() + make_interval(secs => $3::float8 / 1000)
     where run_id = any($2::text[]) and holder = $1 and status = 'running'
     returning run_id as "runId", epoch, cancel_requested_at is not null as canceled`,
    [holder, runIds, leaseMs],
  )
  return rows
}

/** Running runs of the dispatcher that somebody canceled. */
export async function canceledRuns(executor: SqlExecutor, holder: string): Promise<string[]> {
  const { rows } = await executor.query<{ run_id: string }>(
    `select run_id from platform.runs
     where status = 'running' and holder = $1 and cancel_requested_at is not null`,
    [holder],
  )
  return rows.map((row) => row.run_id)
}

/**
 * Why a run goes back into its queue:
 * - `unavailable`: nothing of it began at the node, so the attempt does not count, and its time to start goes on;
 * - `lost`: the node was lost in an attempt that had shown nothing;
 * - `stopped`: the dispatcher ends, and the attempt does not count.
 */
export type GiveBack = 'unavailable' | 'lost' | 'stopped'

/**
 * The turn that its caller had is given back with it. False when the attempt has shown an event, the run is canceled, or is not held under this epoch any more; and where no
 * node has taken it for `startMs`.
 */
export async function giveBackRun(
  executor: SqlExecutor,
  given: { runId: string; epoch: number; why: GiveBack; waitMs: number; startMs: number },
): Promise<boolean> {
  const { runId, epoch, why, waitMs, startMs } = given
  const { rows } = await executor.query(
    `with given as (
     update platform.runs set status = 'queued', holder = null, lease_until = null,
       attempt = attempt - case $3 when 'lost' then 0 else 1 end,
       started_at = case when attempt = 1 and $3 <> 'lost' then null else started_at end,
       resumed_at = case when attempt = asked_attempt + 1 and $3 <> 'lost' then null else resumed_at end,
       head_at = case $3 when 'unavailable' then coalesce(head_at, clock_timestamp()) end,
       not_before = clock_timestamp() + make_interval(secs => $4::float8 / 1000)
     where run_id = $1 and epoch = $2 and status = 'running' and not shown and cancel_requested_at is null
       and ($3 <> 'unavailable' or head_at is null
         or head_at > clock_timestamp() - make_interval(secs => $5::float8 / 1000))
     returning slug, caller_uid),
     ${turnsBack('given')}
     select slug from given`,
    [runId, epoch, why, waitMs, startMs],
  )
  return rows.length === 1
}

/**
 * A part of a statement: callers whose runs went back into their queues, unserved, are next at their nodes. `given` has slugs
 * and uids. A turn that somebody gives just now is left alone: nobody waits here, while rows of runs are locked.
 */
export function turnsBack(given: string): string {
  return `turns_back as (
     delete from platform.run_turns where (slug, caller_uid) in (
       select t.slug, t.caller_uid from platform.run_turns t join ${given} g on g.slug = t.slug and g.caller_uid = t.caller_uid
       for update of t skip locked))`
}

/** Its payload is the slug of the node for which a run waits, or `cancelNotice`. */
export const runsChannel = 'flotilla_runs'
/** No slug. */
export const cancelNotice = '!cancel'

/**
 * A statement of its own: a NOTIFY inside of a transaction makes all commits of the database wait for each other. One that
 * fails delays the run until the next sweep.
 */
export function wakeDispatchers(relational: Pick<Relational, 'query'>, payload: string): void {
  relational
    .query(`select pg_notify('${runsChannel}', $1), pg_notify('flotilla_outbox', '')`, [payload])
    .catch(() => {})
}

/** How a dispatcher claims a run with its acceptance. */
export type ClaimAtOnce = Pick<ClaimRequest, 'holder' | 'leaseMs' | 'concurrency'>

/** `begin` works on the run once it was claimed so, where nothing else waits. */
interface AtOnce {
  claim: ClaimAtOnce
  begin(run: ClaimedRun): void
}

/**
 * Call it before the run is accepted; undefined: it takes none now. Meanwhile the session is made at the node: no agent is
 * called by that, and it may stay empty.
 */
export type TakeAtOnce = (run: Pick<ClaimedRun, 'slug' | 'userId' | 'sessionId'>) => AtOnce | undefined

export interface LocalRuns {
  /** Hands a run to the dispatcher of this process; undefined where another process has it. */
  takeAtOnce: TakeAtOnce | undefined
  /** The feed of each gateway: gets all that the dispatcher publishes of runs, and says whether somebody waits for it. */
  readers: Set<(record: RunEventRecord) => boolean>
}

/** One for each process: see `ServiceHost.shared`. */
export function createLocalRuns(): LocalRuns {
  return { takeAtOnce: undefined, readers: new Set() }
}
