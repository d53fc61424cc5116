/**
 * Deletes a session: at the nodes first, its rows last. Where it breaks off between, the session is still listed, and a further call
 * deletes the rest.
 */

import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { NodeFault, type NodeSession, type NodeSet } from '../nodes/nodes.ts'
import { axon } from '../state/end.ts'
import {
  endReports,
  readSessionState,
  removeSession,
  type SessionState,
  sessionBusy,
} from '../state/remove-session.ts'
import type { SeenBy, SessionKey } from '../state/sessions.ts'

const retryAfterSeconds = 5

interface Parts {
  relational: Relational
  nodes: NodeSet
  /** The caller, who may delete sessions that it sees whole. */
  own: SeenBy
  signal: AbortSignal
}

/**
 * Agents that the nodes file does not name any more are left alone. Throws AppError `user_mismatch` where others started runs in it,
 * `session_busy` while one is at work or waiting, `node_unavailable` where a node did not delete it.
 */
export async function deleteSession(
  { relational, nodes, own, signal }: Parts,
  session: SessionKey,
): Promise<void> {
  const state = await readSessionState(relational, session, own)
  if (state.isShared) {
    throw new AppError(
      'user_mismatch',
      'Others started runs in this session: its user may delete it, where that is one of the platform, and admins.',
    )
  }
  if (state.active !== null) throw sessionBusy(state.active)
  await endReports(relational, session, signal)
  // Loads the client of nodes, which few processes of the gateway need.
  const { createDeleteSession } = await import('../nodes/adk/delete-session.ts')
  const deleteAtNode = createDeleteSession()
  const done = await Promise.allSettled(
    sessionsAtNodes(session, state, nodes).map((one) => deleteAtNode(one, signal)),
  )
  for (const one of done) if (one.status === 'rejected') throw refusalOf(one.reason)
  await removeSession(relational, session, state.lastId)
}

/** Reports about its runs are in a session of their own. */
function sessionsAtNodes(
  { userId, sessionId }: SessionKey,
  { agents, isReported }: SessionState,
  nodes: NodeSet,
): NodeSession[] {
  const all = [
    ...agents.map(({ slug }) => ({ slug, sessionId })),
    ...(isReported ? [{ slug: axon.slug, sessionId: `reports-${sessionId}` }] : []),
  ]
  return all.flatMap(({ slug, sessionId: at }) => {
    const node = nodes.bySlug(slug)
    return node ? [{ node, userId, sessionId: at }] : []
  })
}

function refusalOf(reason: unknown): unknown {
  if (!(reason instanceof NodeFault)) return reason
  const message = `${reason.message} Nothing is gone from the lists: delete the session again.`
  return new AppError('node_unavailable', message, { retryAfter: retryAfterSeconds })
}
