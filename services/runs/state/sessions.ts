/**
 * Sessions: the messages of a user and the answers of agents under one id. A session has no row of its own; it is its runs. Reads
 * lists of sessions, the trees of one in the order in which they were accepted, and the message and events of each tree.
 */

import type { SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { sizedPage } from '#runtime/http/paging.ts'
import { storedEvents } from './read.ts'
import { type Content, messageStart, type RunEvent, type RunStatus } from './types.ts'

/** The same id of another user is another session, also of a user who had the name before. */
export interface SessionKey {
  userId: string
  sessionId: string
  /** '' for a free name, and where it is not known. */
  uid: string
}

export interface Session extends Omit<SessionKey, 'uid'> {
  /** Codenames, in the order of the alphabet. */
  agents: string[]
  /** Those that joined are counted, too. */
  runs: number
  createdAt: Date
  /** When something began or ended in it. */
  lastAt: Date
  /** Beginning of the last message. */
  lastMessage: string | null
  /** Status of the run that answers it. */
  lastStatus: RunStatus
}

/** The uid of a caller who sees only runs that it started, or that are its own; null: sees all. */
export type SeenBy = string | null

const seen = (run: string, param: string) =>
  `(${param}::text is null or ${run}.caller_uid = ${param} or ${run}.user_uid = ${param})`

interface SessionQuery {
  own: SeenBy
  userId: string
  /** Only sessions with runs of this agent: a codename or slug, in any case. */
  agent?: string
  limit: number
  /** `next` of the page before. */
  before?: number
}

/** Those with the newest message first. `next` is undefined on the last page. */
export async function listSessions(executor: SqlExecutor, query: SessionQuery) {
  const { rows, isLast } = await sizedPage<Session & { id: number }>(query.limit, (limit, last) =>
    readSessions(executor, { ...query, limit, ...(last ? { before: last.id } : {}) }),
  )
  return {
    sessions: rows.map(({ id: _, ...session }) => session),
    next: isLast ? undefined : rows.at(-1)!.id,
  }
}

async function readSessions(
  executor: SqlExecutor,
  { own, userId, agent, limit, before }: SessionQuery,
): Promise<(Session & { id: number })[]> {
  const runsOf = (kind: 'roots' | 'runs', run: string) =>
    `platform.session_${kind}(${run}.user_id, ${run}.session_id, coalesce(${run}.user_uid, ''))`
  const params: SqlValue[] = [limit, userId, own]
  const conditions: string[] = []
  if (before !== undefined) conditions.push(`and r.id < $${params.push(before)}`)
  if (agent !== undefined) {
    const slug = `lower($${params.push(agent)})`
    conditions.push(
      `and exists (select from ${runsOf('runs', 'r')} a where a.slug = ${slug} and ${seen('a', '$3')})`,
    )
  }
  const { rows } = await executor.query<Session & { id: number }>(
    // A session is found at its last run; the lateral parts are read for those of the page alone.
    `with found as materialized (
       select r.id, r.user_id, r.session_id, r.user_uid from platform.runs r
       where r.user_id = $2 and r.trigger <> 'report' and r.trigger <> 'mention' and ${seen('r', '$3')}
         and not exists (select from ${runsOf('roots', 'r')} n where n.id > r.id and ${seen('n', '$3')})
         ${conditions.join(' ')}
       order by r.id desc limit $1)
     select f.id, f.user_id as "userId", f.session_id as "sessionId", whole.*, newest.*
     from found f
     cross join lateral (
       select array_agg(distinct a.agent order by a.agent) as agents, count(*)::integer as runs,
         min(a.created_at) as "createdAt", greatest(max(a.created_at), max(a.ended_at)) as "lastAt"
       from ${runsOf('runs', 'f')} a where ${seen('a', '$3')}) whole
     cross join lateral (
       select ${messageStart} as "lastMessage", r.status as "lastStatus"
       from ${runsOf('roots', 'f')} r where ${seen('r', '$3')} order by r.trigger = 'synthesis', r.id desc limit 1) newest
     order by f.id desc`,
    params,
  )
  return rows
}

/** Where the name had two, the session with the newest run. Null: the caller sees none. */
export async function findSession(
  executor: SqlExecutor,
  own: SeenBy,
  { userId, sessionId }: Omit<SessionKey, 'uid'>,
): Promise<SessionKey | null> {
  const { rows } = await executor.query<{ uid: string }>(
    `select coalesce(r.user_uid, '') as uid from platform.runs r
     where platform.session_key(r.user_id, r.session_id) = platform.session_key($1, $2) and r.user_id = $1
       and r.session_id = $2 and r.trigger <> 'mention' and r.trigger <> 'report' and ${seen('r', '$3')}
     order by r.id desc limit 1`,
    [userId, sessionId, own],
  )
  return rows[0] ? { userId, sessionId, uid: rows[0].uid } : null
}

/** A run of a session that joined no other one, with all that joined it. */
export interface SessionTree {
  /** In the order of their commits. */
  id: number
  runId: string
  createdAt: Date
  /** Its message is the user's, and that of no earlier run of the same dispatch. */
  hasMessage: boolean
  lastEventId: number
  /** No more events will come. */
  ended: boolean
}

export interface TreeQuery {
  session: SessionKey
  own: SeenBy
  /** Trees behind this one, at most `limit`. */
  after: number
  limit: number
  /** And these. */
  open: readonly number[]
}

/** The oldest first. */
export async function readTrees(
  executor: SqlExecutor,
  { session: { userId, sessionId, uid }, own, after, limit, open }: TreeQuery,
): Promise<SessionTree[]> {
  const { rows } = await executor.query<SessionTree>(
    `select r.id, r.run_id as "runId", r.created_at as "createdAt", t.last_event_id as "lastEventId",
       t.open_runs = 0 as ended, r.trigger <> 'synthesis' and r.message is not null and not (
         r.trigger = 'dispatch' and exists (
           select from platform.runs d where d.goal_id = r.goal_id and d.trigger = 'dispatch' and d.id < r.id))
         as "hasMessage"
     from (
       (select * from platform.session_roots($1, $2, $3) n where n.id > $5 and ${seen('n', '$4')} order by n.id limit $6)
       union all
       (select * from platform.runs o where o.id = any($7::bigint[]) and o.user_id = $1 and o.session_id = $2
          and coalesce(o.user_uid, '') = $3 and ${seen('o', '$4')})) r
     join platform.run_trees t on t.root_run_id = r.run_id order by r.id`,
    [userId, sessionId, uid, own, after, limit, open as number[]],
  )
  return rows
}

/** Message and events of the tree behind `after`; the message has the number 0. Ends as `readEvents`. */
export async function readSaid(
  executor: SqlExecutor,
  { runId, createdAt }: SessionTree,
  after: number,
  limit: number,
): Promise<{ seq: number; event: RunEvent }[]> {
  const said = await storedEvents(
    executor,
    `(select 0::bigint as seq, run_id, message::text as event from platform.runs
      where run_id = $1 and $2 < 0 and message is not null)
     union all
     (select seq, run_id, event from platform.run_events where root_run_id = $1 and seq > $2 order by seq limit $3)`,
    [runId, after, limit],
  )
  return said.map(({ seq, event }) => ({
    seq,
    event: seq === 0 ? messageEvent(runId, createdAt, event as unknown as Content) : event,
  }))
}

/** As ADK keeps messages of users. */
function messageEvent(runId: string, createdAt: Date, { parts }: Content): RunEvent {
  return {
    id: `message_${runId}`,
    author: 'user',
    invocationId: runId,
    timestamp: createdAt.getTime() / 1_000,
    content: { role: 'user', parts },
  }
}
