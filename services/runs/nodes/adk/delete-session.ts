/** Deletes a session at its node, by the protocol of ADK's api_server. */

import { pathPart } from '#lib/path-part.ts'
import { NodeFault, type NodeSession } from '../nodes.ts'
import { beginningOf, createConnections, unavailable } from './connections.ts'

const answerMs = 10_000
const answerBytesMax = 64 * 1024

/** Resolves as well where the node has none. Throws NodeFault `unavailable`. */
export function createDeleteSession(send = createConnections()) {
  return async function deleteSession(
    { node, userId, sessionId }: NodeSession,
    signal: AbortSignal,
  ): Promise<void> {
    const path = `/apps/${pathPart(node.app)}/users/${pathPart(userId)}/sessions/${pathPart(sessionId)}`
    const within = AbortSignal.any([signal, AbortSignal.timeout(answerMs)])
    let status: number
    try {
      const answer = await send(node, { method: 'DELETE', path, silenceMs: answerMs, signal: within })
      await beginningOf(answer.body, answerBytesMax)
      status = answer.statusCode
    } catch (error) {
      throw signal.aborted ? signal.reason : unavailable(error)
    }
    if ((status >= 200 && status < 300) || status === 404) return
    throw new NodeFault('unavailable', `The node does not delete the session (HTTP ${status}).`)
  }
}
