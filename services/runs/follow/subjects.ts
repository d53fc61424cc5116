/** What can be followed: the tree of a run, a run alone, a dispatch; and the regular looks at its rows. */

import type { Logger } from 'pino'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { startRepeating } from '#runtime/repeat.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { readDispatch } from '../state/dispatches.ts'
import { readDispatchEvents, readEvents, readRun } from '../state/read.ts'
import type { SessionKey } from '../state/sessions.ts'
import type { Dispatch, Run, StoredEvent } from '../state/types.ts'
import type { FeedKey } from './feed.ts'

/** `T` is what it is in the end. */
export interface Subject<T> {
  feed: FeedKey
  look: LookKey
  /** The number of a record's event, as this subject counts. */
  seqOf(record: RunEventRecord): number | null
  /** The status that a record gives it. */
  statusIn(record: RunEventRecord): string | null
  /** Whether it is over with this record. */
  endsWith(record: RunEventRecord): boolean
  /** Whether the events of this run are among those that are shown. */
  shows(runId: string): boolean
  /** All events behind `after` in order, also those that are not shown. */
  eventsAfter(after: number, limit: number): Promise<StoredEvent[]>
  /** Whether an event with this number, or a greater one, is among those that are shown. */
  hasFrom(seq: number): Promise<boolean>
  lookNow(): Promise<Look>
  /** Once it is over. */
  readEnded(): Promise<{ value: T; lastEventId: number }>
  /** A run of it that waits for an answer. */
  readAsking(runId: string): Promise<Run>
}

/** The events of a run and of all that joined it; with `alone` those of that run of the tree, under the same numbers. */
export function treeOf(relational: Relational, rootRunId: string, alone?: string): Subject<Run> {
  const runId = alone ?? rootRunId
  const look: LookKey = { kind: alone === undefined ? 'tree' : 'run', id: runId }
  const shown = alone === undefined ? {} : { runId: alone }
  return {
    feed: rootRunId,
    look,
    seqOf: (record) => record.seq,
    statusIn: (record) => (record.run_id === runId ? record.status : null),
    endsWith: ({ run_id: id, status, tree_ended: treeEnded }) =>
      alone === undefined ? treeEnded : id === alone && hasEnded(status),
    shows: (id) => alone === undefined || id === alone,
    eventsAfter: (after, limit) => readEvents(relational, { rootRunId, after, limit }),
    hasFrom: (seq) => isAny(readEvents(relational, { rootRunId, ...shown, after: seq - 1, limit: 1 })),
    lookNow: () => lookNow(relational, look),
    async readEnded() {
      const run = await keptRun(relational, runId)
      return { value: run, lastEventId: run.lastEventId }
    },
    readAsking: (id) => keptRun(relational, id),
  }
}

/** The events of all runs of a dispatch, of those that joined them, and of the synthesis. */
export function dispatchOf(relational: Relational, goalId: number): Subject<Dispatch> {
  const look: LookKey = { kind: 'dispatch', id: goalId }
  const eventsAfter = (after: number, limit: number) =>
    readDispatchEvents(relational, { goalId, after, limit })
  return {
    feed: goalId,
    look,
    seqOf: (record) => record.goal_seq,
    statusIn: (record) => record.goal_status,
    endsWith: ({ goal_status: status }) => hasEnded(status),
    shows: () => true,
    eventsAfter,
    hasFrom: (seq) => isAny(eventsAfter(seq - 1, 1)),
    lookNow: () => lookNow(relational, look),
    async readEnded() {
      const { lastEventId } = await lookNow(relational, look)
      const dispatch = await readDispatch(relational, goalId)
      if (!dispatch) throw new AppError('dispatch_not_found', 'The dispatch is not kept any more.')
      return { value: dispatch, lastEventId }
    },
    readAsking: (id) => keptRun(relational, id),
  }
}

async function keptRun(relational: Relational, runId: string): Promise<Run> {
  const run = await readRun(relational, runId)
  if (!run) throw new AppError('run_not_found', 'The run is not kept any more.')
  return run
}

async function isAny(events: Promise<StoredEvent[]>): Promise<boolean> {
  return (await events).length > 0
}

/** Records give no status but `running`, `input_required` and those of ends. */
function hasEnded(status: string | null): boolean {
  return status !== null && status !== 'running' && status !== 'input_required'
}

/** The subject of a look: a tree by the id of its root run, a run by its id, a dispatch by the number of its goal, or a session. */
export interface LookKey {
  kind: 'tree' | 'run' | 'dispatch' | 'session'
  id: string | number
}

export function lookKeyOf({ userId, sessionId, uid }: SessionKey): LookKey {
  return { kind: 'session', id: JSON.stringify([userId, sessionId, uid]) }
}

export interface Look {
  ended: boolean
  /** Last event of the tree, or of the dispatch; number of the newest tree of a session, which never ends. */
  lastEventId: number
  /**
   * Runs that wait for an answer: of a dispatch all, of a tree one, and only where nothing else of it goes on. `question` names the
   * attempt, too.
   */
  asking: { runId: string; question: string }[]
}

const everyMs = 1_000

export type Looks = ReturnType<typeof createLooks>

/**
 * Looks at the rows of everything that answers wait for, all together and once a second: what the log did not bring, or
 * brings late, is found so.
 */
export function createLooks({ relational, log }: { relational: SqlExecutor; log: Logger }) {
  interface Watch {
    key: LookKey
    listener(look: Look): void
  }
  const watches = new Set<Watch>()
  const looking = startRepeating({ what: 'looks at runs', everyMs, log }, async () => {
    for (const [kind, asked] of Map.groupBy(watches, ({ key }) => key.kind)) {
      const ids = new Set(asked.map(({ key }) => key.id))
      const found = await lookAt(relational, kind, [...ids])
      for (const watch of asked) if (watches.has(watch)) watch.listener(found.get(watch.key.id)!)
    }
  })
  return {
    /** Calls `listener` about once a second until the result is called. */
    watch(key: LookKey, listener: Watch['listener']): () => void {
      const watch = { key, listener }
      watches.add(watch)
      return () => watches.delete(watch)
    },
    close: looking.close,
  }
}

const statements = {
  tree: `select t.root_run_id as key, t.open_runs = 0 as ended, t.last_event_id as last,
      case when a.run_id is not null then jsonb_build_array(jsonb_build_object('runId', a.run_id, 'attempt', a.attempt)) end as asking
    from platform.run_trees t left join lateral (
      select w.run_id, w.attempt from platform.runs w where w.root_run_id = t.root_run_id and w.status = 'input_required'
        and not exists (
          select from platform.runs o where o.status in ('queued', 'running')
            and (o.run_id = t.root_run_id or o.parent_run_id is not null and o.root_run_id = t.root_run_id))
      order by w.id limit 1) a on true
    where t.root_run_id = any($1::text[])`,
  run: `select r.run_id as key, r.ended_at is not null as ended, t.last_event_id as last,
      case when r.status = 'input_required' then
        jsonb_build_array(jsonb_build_object('runId', r.run_id, 'attempt', r.attempt)) end as asking
    from platform.runs r join platform.run_trees t on t.root_run_id = r.root_run_id
    where r.run_id = any($1::text[])`,
  dispatch: `select d.goal_id as key, d.status <> 'running' as ended, d.last_event_id as last, (
      select jsonb_agg(jsonb_build_object('runId', r.run_id, 'attempt', r.attempt) order by r.asked_at, r.id)
      from platform.runs r where r.goal_id = d.goal_id and r.status = 'input_required') as asking
    from platform.dispatches d where d.goal_id = any($1::bigint[])`,
  session: `select s.key, false as ended, null as asking, coalesce((
      select r.id from platform.session_roots(s.key::json->>0, s.key::json->>1, s.key::json->>2) r
      order by r.id desc limit 1), 0) as last
    from unnest($1::text[]) as s (key)`,
}

/** One that is not there has ended. */
export async function lookNow(executor: SqlExecutor, { kind, id }: LookKey): Promise<Look> {
  return (await lookAt(executor, kind, [id])).get(id)!
}

async function lookAt(
  executor: SqlExecutor,
  kind: LookKey['kind'],
  ids: LookKey['id'][],
): Promise<Map<LookKey['id'], Look>> {
  const found = new Map(
    ids.map((id): [LookKey['id'], Look] => [id, { ended: true, lastEventId: 0, asking: [] }]),
  )
  const { rows } = await executor.query<{
    key: LookKey['id']
    ended: boolean
    last: number
    asking: { runId: string; attempt: number }[] | null
  }>(statements[kind], [ids as string[]])
  for (const { key, ended, last, asking } of rows) {
    const asked = (asking ?? []).map(({ runId, attempt }) => ({ runId, question: `${runId}.${attempt}` }))
    found.set(key, { ended, lastEventId: last, asking: asked })
  }
  return found
}
