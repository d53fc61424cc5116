/** Lets the agents join that a message of a run names. Each message is scanned once, where it was written. */

import type { SqlTransaction } from '#engines/relational/port.ts'
import { chooseMentions, mentionTextOf, pairKey } from '../mentions/choose-mentions.ts'
import { findMentions } from '../mentions/find-mentions.ts'
import type { NodeSet } from '../nodes/types.ts'
import type { ClaimedRun } from '../state/columns.ts'
import { type Joined, joinAgents } from '../state/joins.ts'
import { isFault } from '../state/model-ends.ts'
import type { Content, RunEvent } from '../state/types.ts'

/** Runs whose own messages, and those of their agents, may call others; those of AXON about others do not. */
const calling = new Set(['api', 'dispatch', 'mention'])

export interface NamingText {
  text: string
  /** What makes the ids of the runs that join: the event's id, or `message`. */
  origin: string
  isUser: boolean
}

/** The user's message, where it may name somebody. All agents are addressed by that of a dispatch already. */
export function namingMessage(run: ClaimedRun, nodes: NodeSet): NamingText | null {
  if (run.trigger !== 'api' || run.message === null) return null
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
  const text = mentionTextOf(content)
  const names = nodes.nodes.map(({ codename }) => codename)
  return findMentions(text, names).length > 0 ? { text, ...of } : null
}

/** In the transaction that holds the run's row. Notes in `run` who joined. */
export async function joinNamed(
  tx: SqlTransaction,
  run: ClaimedRun,
  { text, origin, isUser }: NamingText,
  nodes: NodeSet,
): Promise<Joined> {
  const caller = run.messageAuthor && run.messageAuthor !== 'user' ? { caller: run.messageAuthor } : {}
  return joinAgents(tx, {
    run,
    text,
    author: isUser ? 'user' : run.agent,
    origin,
    pairKey: (codename) => (isUser ? null : pairKey(run.agent, codename)),
    choose: (tally) =>
      chooseMentions({
        text,
        speaker: run.agent,
        ...(isUser ? { addressee: run.agent } : caller),
        isUser,
        depth: run.depth,
        nodes,
        tally,
        alreadyNamed: new Set(run.joined.map(({ agent }) => agent)),
      }),
  })
}
