/** Agents that a message names join the conversation: a run for each, under the lock of the tree. */

import type { SqlTransaction } from '#engines/relational/port.ts'
import type { ClaimedRun } from './columns.ts'
import { insertRun, runIdOf } from './new-run.ts'
import type { Content, SkipReason } from './types.ts'

/** What the tree has started so far, as the rules of mentions count it. */
export interface Tally {
  /** Runs of the tree, the root run among them. */
  runs: number
  pairs: ReadonlyMap<string, number>
}

interface Chosen {
  join: { slug: string; codename: string }[]
  skipped: { agent: string; reason: SkipReason }[]
}

interface JoinRequest {
  /** In which the message was written. */
  run: ClaimedRun
  text: string
  /** Codename of who wrote it, or 'user'. */
  author: string
  /** What makes the ids of the new runs: an event's id, or `message`. */
  origin: string
  /** The key under which a call of this agent counts; null where calls are not counted. */
  pairKey(codename: string): string | null
  choose(tally: Tally): Chosen
}

export interface Joined {
  joined: { agent: string; runId: string; slug: string }[]
  skipped: { agent: string; reason: SkipReason }[]
}

/** Call it in a transaction that holds the run's row. */
export async function joinAgents(tx: SqlTransaction, request: JoinRequest): Promise<Joined> {
  const { run } = request
  const tree = await tx.query<{ mentions: number; pairs: Record<string, number> }>(
    'select mentions, pairs from platform.run_trees where root_run_id = $1 for no key update',
    [run.rootRunId],
  )
  const { mentions, pairs } = tree.rows[0]!
  const tally = { runs: mentions + 1, pairs: new Map(Object.entries(pairs)) }
  const chosen = request.choose(tally)
  const result: Joined = { joined: [], skipped: [...chosen.skipped] }
  for (const { slug, codename } of chosen.join) {
    const runId = runIdOf('mention', run.rootRunId, request.origin, codename)
    const made = await insertRun(tx, childOf(request, { runId, slug, codename }))
    if (made.run) {
      result.joined.push({ agent: codename, runId, slug })
      const key = request.pairKey(codename)
      if (key !== null) tally.pairs.set(key, (tally.pairs.get(key) ?? 0) + 1)
    } else result.skipped.push({ agent: codename, reason: 'queue_full' })
  }
  await writeJoined(tx, run, result, Object.fromEntries(tally.pairs))
  return result
}

function childOf(
  { run, text, author }: JoinRequest,
  { runId, slug, codename }: { runId: string; slug: string; codename: string },
) {
  const message: Content = { role: 'user', parts: [{ text }] }
  return {
    runId,
    slug,
    agent: codename,
    userId: run.userId,
    sessionId: run.sessionId,
    trigger: 'mention' as const,
    callerUid: run.callerUid,
    requestId: run.requestId,
    traceparent: run.traceparent,
    message,
    messageAuthor: author,
    streaming: run.streaming,
    parentRunId: run.runId,
    rootRunId: run.rootRunId,
    goalId: run.goalId,
    depth: run.depth + 1,
    deadline: run.deadline,
  }
}

async function writeJoined(
  tx: SqlTransaction,
  run: ClaimedRun,
  { joined, skipped }: Joined,
  pairs: Record<string, number>,
): Promise<void> {
  if (joined.length === 0 && skipped.length === 0) return
  await tx.query(
    `with tree as (
       update platform.run_trees set mentions = mentions + $2::integer, open_runs = open_runs + $2::integer, pairs = $3::jsonb
       where root_run_id = $1)
     update platform.runs set joined = joined || $5::jsonb, skipped = skipped || $6::jsonb where run_id = $4`,
    [
      run.rootRunId,
      joined.length,
      JSON.stringify(pairs),
      run.runId,
      JSON.stringify(joined.map(({ agent, runId }) => ({ agent, runId }))),
      JSON.stringify(skipped),
    ],
  )
}
