/** Moves a dispatch on when its runs have ended: AXON's conclusion, then the end of the goal. */

import type { Relational, SqlTransaction } from '#engines/relational/port.ts'
import { insertRun, runIdOf } from './accept.ts'
import { endDispatch, readDispatch } from './dispatches.ts'
import { axon } from './end.ts'
import { type Content, type DispatchStatus, type Run, type RunEvent, spokenText } from './types.ts'

interface Row {
  user_id: string
  session_id: string
  message: Content
  caller_uid: string
  request_id: string | null
  synthesis_run_id: string | null
  /** The deadline of a synthesis that begins now, by the clock of the database, as all deadlines. */
  synthesis_until: Date
}

/**
 * Called after each end of a run of the dispatch, and by the sweep; repeated calls have no further effect. Gives the synthesis
 * that was started, or the state in which the dispatch ended.
 */
export function advanceDispatch(
  relational: Relational,
  goalId: number,
  { axonIsLive, synthesisMs }: { axonIsLive: boolean; synthesisMs: number },
): Promise<{ synthesis?: string; ended?: DispatchStatus }> {
  return relational.transaction(async (tx) => {
    // Whoever comes later sees all that ended before.
    const { rows } = await tx.query<Row>(
      `select user_id, session_id, message, caller_uid, request_id, synthesis_run_id,
         clock_timestamp() + make_interval(secs => $2::float8 / 1000) as synthesis_until
       from platform.dispatches where goal_id = $1 and status = 'running' for no key update`,
      [goalId, synthesisMs],
    )
    const dispatch = rows[0]
    if (!dispatch || (await hasOpenRuns(tx, goalId))) return {}
    const { runs: members } = (await readDispatch(tx, goalId))!
    if (dispatch.synthesis_run_id === null && axonIsLive) {
      return { synthesis: await startSynthesis(tx, goalId, dispatch, members) }
    }
    const result = await resultOf(tx, dispatch.synthesis_run_id)
    const ended = statusOf(members)
    await endDispatch(tx, goalId, { status: ended, result })
    return { ended }
  })
}

/** Dispatches that have not ended. */
export async function runningDispatches(relational: Pick<Relational, 'query'>): Promise<number[]> {
  const { rows } = await relational.query<{ goal_id: number }>(
    `select goal_id from platform.dispatches where status = 'running' order by goal_id`,
  )
  return rows.map((row) => row.goal_id)
}

async function hasOpenRuns(tx: SqlTransaction, goalId: number): Promise<boolean> {
  const { rows } = await tx.query(
    `select from platform.runs where goal_id = $1 and status in ('queued', 'running', 'input_required') limit 1`,
    [goalId],
  )
  return rows.length > 0
}

function statusOf(members: Run[]): 'completed' | 'partial' | 'failed' {
  const completed = members.filter(({ status }) => status === 'completed').length
  if (completed === members.length) return 'completed'
  return completed > 0 ? 'partial' : 'failed'
}

async function startSynthesis(
  tx: SqlTransaction,
  goalId: number,
  dispatch: Row,
  members: Run[],
): Promise<string> {
  const runId = runIdOf('synthesis', String(goalId))
  await insertRun(tx, {
    runId,
    slug: axon.slug,
    agent: axon.codename,
    userId: dispatch.user_id,
    sessionId: dispatch.session_id,
    trigger: 'synthesis',
    callerUid: dispatch.caller_uid,
    requestId: dispatch.request_id,
    message: { role: 'user', parts: [{ text: questionOf(dispatch.message, members) }] },
    streaming: false,
    goalId,
    deadline: dispatch.synthesis_until,
  })
  await tx.query('update platform.dispatches set synthesis_run_id = $2 where goal_id = $1', [goalId, runId])
  return runId
}

function questionOf(message: Content, members: Run[]): string {
  const reports = members.map(
    ({ agent, status, summary, error }) => `${agent} (${status}): ${error?.message ?? summary ?? ''}`,
  )
  return [
    'This message was sent to all agents of the fleet:',
    spokenText(message),
    'What they answered:',
    ...reports,
    'Give the conclusion.',
  ].join('\n\n')
}

/** The text of the synthesis, when it was completed. */
async function resultOf(tx: SqlTransaction, synthesisRunId: string | null): Promise<string | null> {
  if (synthesisRunId === null) return null
  const { rows } = await tx.query<{ event: string }>(
    `select e.event from platform.run_events e join platform.runs r on r.run_id = e.run_id
     where e.root_run_id = $1 and r.status = 'completed' order by e.seq desc limit 20`,
    [synthesisRunId],
  )
  for (const { event } of rows) {
    const { content } = JSON.parse(event) as RunEvent
    const text = content ? spokenText(content) : ''
    if (text !== '') return text.replaceAll('\0', '\ufffd').toWellFormed()
  }
  return null
}
