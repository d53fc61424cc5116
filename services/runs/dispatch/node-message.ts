/** What a node is given: the caller's message, or what the platform has to tell it. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import {
  attachmentsOf,
  type ClaimedRun,
  type Content,
  type RunEvent,
  spokenText,
  textsOf,
} from '../state/types.ts'
import type { Report, RunHost } from './parts.ts'

const contextMessages = 20
const contextMessageLengthMax = 4_000

interface NodeMessage {
  message: Content
  customMetadata?: Record<string, unknown>
}

/** Null when there is nothing to say any more. */
export async function nodeMessageOf(
  { relational: executor, readReport }: Pick<RunHost, 'relational' | 'readReport'>,
  run: ClaimedRun,
): Promise<NodeMessage | null> {
  const customMetadata = run.customMetadata ? { customMetadata: run.customMetadata } : {}
  if (run.input !== null && !(await isVoid(executor, run))) return { message: run.input, ...customMetadata }
  if (run.trigger === 'report') return reportMessage(await readReport(run.runId))
  if (run.message === null || (await isVoid(executor, run))) return null
  if (run.trigger !== 'mention') return { message: { role: 'user', ...run.message }, ...customMetadata }
  const said = await readConversation(executor, run, contextMessages)
  return { message: mentionMessage(run, said, run.message), ...customMetadata }
}

/** A synthesis that was started just when somebody canceled the dispatch. */
async function isVoid(executor: SqlExecutor, { trigger, goalId }: ClaimedRun): Promise<boolean> {
  if (trigger !== 'synthesis' || goalId === null) return false
  const running = `select from platform.dispatches where goal_id = $1 and status = 'running'`
  return (await executor.query(running, [goalId])).rows.length === 0
}

function reportMessage(report: Report | null): NodeMessage | null {
  if (!report) return null
  const { reportId, agent, status } = report
  const text = `Report ${reportId}: a run of ${agent} ended, ${status}.\n\n${JSON.stringify(report)}`
  return { message: { role: 'user', parts: [{ text }] }, customMetadata: { report } }
}

function mentionMessage({ agent, messageAuthor }: ClaimedRun, said: Said[], message: Content): Content {
  const author = messageAuthor ?? 'user'
  const text = spokenText(message)
  const lines = said.map((one) => `${one.author}: ${shortened(one.text)}`)
  const context = [
    `You are ${agent}. ${author} named you in a conversation. Its last messages, the oldest first:`,
    ...lines,
    'The message that names you:',
    `${author}: ${text}`,
  ]
  return { role: 'user', parts: [{ text: context.join('\n\n') }, ...attachmentsOf(message)] }
}

function shortened(text: string): string {
  return text.length <= contextMessageLengthMax
    ? text
    : `${text.slice(0, contextMessageLengthMax)}…`.toWellFormed()
}

interface Said {
  /** A codename, or `user`. */
  author: string
  text: string
}

/** The last messages of the session of this user before the run was accepted, the oldest first: users' messages and final events. */
export async function readConversation(
  executor: SqlExecutor,
  { runId, userId, sessionId }: { runId: string; userId: string; sessionId: string },
  limit: number,
): Promise<Said[]> {
  const { rows } = await executor.query<{ author: string; message: Content | null; event: string | null }>(
    `with before as (select created_at as at, user_uid from platform.runs where run_id = $1),
     said as (
       (select 'user' as author, ${textsOf('r.message')} as message, null as event, r.created_at as at, 0 as seq
        from platform.runs r, before
        where r.user_id = $2 and r.session_id = $3 and r.user_uid is not distinct from before.user_uid
          and r.trigger in ('api', 'schedule', 'dispatch') and r.created_at <= before.at
        order by r.id desc limit $4)
       union all
       (select r.agent, null, e.event, e.created_at, e.seq
        from platform.runs r join platform.run_events e on e.root_run_id = r.root_run_id and e.run_id = r.run_id, before
        where r.user_id = $2 and r.session_id = $3 and r.user_uid is not distinct from before.user_uid
          and r.trigger in ('api', 'schedule', 'dispatch', 'mention') and e.created_at <= before.at
        order by e.created_at desc limit $4))
     select author, message, event from said order by at desc, seq desc limit $4`,
    [runId, userId, sessionId, limit],
  )
  return rows.reverse().flatMap(({ author: speaker, message, event }) => {
    const said = JSON.parse(event ?? '{}') as RunEvent
    const content = message ?? said.content
    // Answers to questions are among the events of agents.
    const author = said.author === 'user' ? 'user' : speaker
    const text = content ? spokenText(content) : ''
    return text === '' ? [] : [{ author, text }]
  })
}

/** The reports that these runs bring, in their order. */
export async function readReports(executor: SqlExecutor, reportRunIds: string[]): Promise<(Report | null)[]> {
  const { rows } = await executor.query<{ id: string; body: Report }>(
    'select report_run_id as id, body from platform.run_reports where report_run_id = any($1::text[])',
    [reportRunIds],
  )
  const bodies = new Map(rows.map(({ id, body }) => [id, body]))
  return reportRunIds.map((id) => bodies.get(id) ?? null)
}
