/**
 * Lets the agents join that a message of a run names: a run for each, under the lock of the tree. Each message is scanned once,
 * where it was written. Says of those who do not join why.
 */

import type { Relational, SqlTransaction } from '#engines/relational/port.ts'
import type { NodeSet, RunNode } from '../nodes/nodes.ts'
import { insertRun, type NewRun, runIdOf } from '../state/accept.ts'
import {
  attachmentsOf,
  type ClaimedRun,
  type Content,
  isFault,
  type Part,
  type RunEvent,
  type Skipped,
  type SkipReason,
  spokenText,
} from '../state/types.ts'
import { findMentions, type Mention } from './find-mentions.ts'

/** Runs whose own messages, and those of their agents, may call others; those of AXON about others do not. */
const calling = new Set(['api', 'schedule', 'dispatch', 'mention'])

export interface NamingText {
  text: string
  /** What those who join are given with it. */
  attachments: readonly Part[]
  /** What makes the ids of the runs that join: the event's id, or `message`. */
  origin: string
  isUser: boolean
}

/** The user's message, where it may name somebody. All agents are addressed by that of a dispatch already. */
export function namingMessage(run: ClaimedRun, nodes: NodeSet): NamingText | null {
  if ((run.trigger !== 'api' && run.trigger !== 'schedule') || run.message === null) return null
  return naming(run.message, { origin: 'message', isUser: true }, nodes)
}

/** A final event of the agent, where it may name somebody. */
export function namingEvent(run: ClaimedRun, event: RunEvent, nodes: NodeSet): NamingText | null {
  const { content } = event
  if (!calling.has(run.trigger) || !content || content.role === 'user' || isFault(event, true)) return null
  return naming(content, { origin: event.id, isUser: false }, nodes)
}

function naming(
  content: Content,
  of: { origin: string; isUser: boolean },
  nodes: NodeSet,
): NamingText | null {
  const text = spokenText(content)
  return findMentions(text, codenamesOf(nodes)).length > 0
    ? { text, attachments: attachmentsOf(content), ...of }
    : null
}

export interface Joined {
  joined: { agent: string; runId: string; slug: string }[]
  skipped: Skipped[]
}

/** Those that the run's own message names, while the run is in this state; null where it is not any more. */
export function joinMessage(
  relational: Relational,
  run: ClaimedRun,
  named: NamingText,
  nodes: NodeSet,
  state: 'running' | 'queued',
): Promise<Joined | null> {
  return relational.transaction(async (tx) => {
    const held = await tx.query(
      `select from platform.runs where run_id = $1 and epoch = $2 and status = $3 and cancel_requested_at is null
         and joined = '[]' and skipped = '[]' for no key update`,
      [run.runId, run.epoch, state],
    )
    return held.rows.length === 0 ? null : joinNamed(tx, run, named, nodes)
  })
}

/** In the transaction that holds the run's row, where it notes who joined. */
export async function joinNamed(
  tx: SqlTransaction,
  run: ClaimedRun,
  named: NamingText,
  nodes: NodeSet,
): Promise<Joined> {
  const tree = await tx.query<{ mentions: number; pairs: Record<string, number> }>(
    'select mentions, pairs from platform.run_trees where root_run_id = $1 for no key update',
    [run.rootRunId],
  )
  const { mentions, pairs } = tree.rows[0]!
  const { join, skipped } = chooseMentions(run, named, nodes, { runs: mentions + 1, pairs })
  const result: Joined = { joined: [], skipped }
  for (const { slug, codename } of join) {
    const runId = runIdOf('mention', run.rootRunId, named.origin, codename)
    const made = await insertRun(tx, childOf(run, named, { runId, slug, agent: codename }))
    if (!made.run) {
      skipped.push({ agent: codename, reason: 'queue_full' })
      continue
    }
    result.joined.push({ agent: codename, runId, slug })
    const key = pairKey(run.agent, codename)
    if (!named.isUser) pairs[key] = (pairs[key] ?? 0) + 1
  }
  await writeJoined(tx, run, result, pairs)
  return result
}

/** All for one root message: what a user or a program wrote. */
const mentionLimits = {
  /** The root run has depth 0. */
  depthMax: 3,
  /** Agents that one message may bring in. */
  fanOutMax: 4,
  /** Runs, the root run among them. */
  runsMax: 12,
  /** Runs that one agent may start at one other. */
  pairMax: 2,
} as const

/** Names that nobody has, listed of one message; the others are counted. */
const unknownMax = 8

/** What the root message has started so far. */
interface MentionTally {
  /** Runs of the tree, the root run among them. */
  runs: number
  /** By `pairKey`. */
  pairs: Readonly<Record<string, number>>
}

/** The run to which the message belongs. */
type Speaking = Pick<ClaimedRun, 'agent' | 'messageAuthor' | 'depth' | 'joined'>

export function chooseMentions(
  run: Speaking,
  { text, isUser }: Pick<NamingText, 'text' | 'isUser'>,
  nodes: NodeSet,
  tally: MentionTally,
) {
  const join: RunNode[] = []
  const skipped: Joined['skipped'] = []
  const seen = new Set<string>()
  let unknown = 0
  for (const mention of findMentions(text, codenamesOf(nodes))) {
    const node = nodes.byCodename(mention.name)
    const name = node?.codename ?? mention.name
    if (seen.has(name) || (node && isTalk(run, isUser, mention))) continue
    seen.add(name)
    if (!node) {
      if (unknown++ < unknownMax) skipped.push({ agent: name, reason: 'unknown' })
      continue
    }
    const ofPair = isUser ? 0 : (tally.pairs[pairKey(run.agent, name)] ?? 0)
    const reason = limitMet(run.depth, ofPair, join.length, tally.runs)
    if (reason) skipped.push({ agent: name, reason })
    else join.push(node)
  }
  const more = unknown - unknownMax
  if (more > 0) skipped.push({ agent: `${more} more`, reason: 'unknown', count: more })
  return { join, skipped }
}

export function pairKey(speaker: string, named: string): string {
  return `${speaker}>${named}`
}

function codenamesOf({ nodes }: NodeSet): string[] {
  return nodes.map(({ codename }) => codename)
}

/** Whether a name calls nobody here: bare names of the caller, and of those that the run has called, are talk about them. */
function isTalk({ agent, messageAuthor, joined }: Speaking, isUser: boolean, { name, at }: Mention): boolean {
  if (name === agent) return true
  return !isUser && !at && (name === messageAuthor || joined.some((one) => one.agent === name))
}

function limitMet(depth: number, ofPair: number, joined: number, runs: number): SkipReason | null {
  if (depth >= mentionLimits.depthMax) return 'depth'
  if (ofPair >= mentionLimits.pairMax) return 'pair'
  if (joined >= mentionLimits.fanOutMax) return 'fan_out'
  return runs + joined >= mentionLimits.runsMax ? 'budget' : null
}

function childOf(
  run: ClaimedRun,
  { text, attachments, isUser }: NamingText,
  child: Pick<NewRun, 'runId' | 'slug' | 'agent'>,
): NewRun {
  return {
    ...child,
    userId: run.userId,
    sessionId: run.sessionId,
    trigger: 'mention',
    callerUid: run.callerUid,
    requestId: run.requestId,
    traceparent: run.traceparent,
    message: { role: 'user', parts: [{ text }, ...attachments] },
    messageAuthor: isUser ? 'user' : run.agent,
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
