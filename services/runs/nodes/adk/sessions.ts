/** Makes the session of a run at its node, unless this process knows that it is there. */

import { hash } from 'node:crypto'
import { createLru } from '#lib/lru.ts'
import { type NodeCall, NodeFault, type RunNode } from '../types.ts'
import { beginningOf, type SendToNode } from './connections.ts'
import { unavailable } from './faults.ts'

const knownMax = 100_000
const createMs = 10_000
const answerBytesMax = 64 * 1024

type SessionOf = Pick<NodeCall, 'node' | 'userId' | 'sessionId' | 'signal'>

export interface NodeSessions {
  /** Throws NodeFault `unavailable` when there is none and none can be made. */
  ensure(of: SessionOf): Promise<void>
  /** The node says that it does not know the session. */
  forget(of: SessionOf): void
}

export function createNodeSessions(send: SendToNode): NodeSessions {
  // Keys are hashes: user and session ids may be long.
  const known = createLru<string, true>(knownMax)

  async function create({ node, userId, sessionId, signal }: SessionOf): Promise<void> {
    const sessions = `/apps/${encodeURIComponent(node.app)}/users/${encodeURIComponent(userId)}/sessions`
    // Both dialects take an id in the path; Python alone takes it in the body, which an id with a slash needs.
    const inPath = { path: `${sessions}/${encodeURIComponent(sessionId)}`, body: {} }
    const inBody = { path: sessions, body: { sessionId } }
    const ways = sessionId.includes('/') ? [inBody] : [inPath, inBody]
    let status = 0
    for (const { path, body } of ways) {
      status = await post(node, path, body, signal)
      // 409: it is there already.
      if ((status >= 200 && status < 300) || status === 409) return
      if (status !== 404 && status !== 405) break
    }
    throw new NodeFault('unavailable', `The node makes no session (HTTP ${status}).`)
  }

  async function post(node: RunNode, path: string, body: object, signal: AbortSignal): Promise<number> {
    try {
      const answer = await send(node, { method: 'POST', path, body, silenceMs: createMs, signal })
      // Read to its end, so that the connection can take the run.
      await beginningOf(answer.body, answerBytesMax)
      return answer.statusCode
    } catch (error) {
      throw signal.aborted ? signal.reason : unavailable(error)
    }
  }

  return {
    async ensure(of) {
      const key = keyOf(of)
      if (known.get(key)) return
      await create(of)
      known.set(key, true)
    },
    forget: (of) => void known.delete(keyOf(of)),
  }
}

function keyOf({ node, userId, sessionId }: SessionOf): string {
  return hash('sha256', JSON.stringify([node.url, node.app, userId, sessionId]), 'base64')
}
