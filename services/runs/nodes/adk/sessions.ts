/** Makes the session of a run at its node, unless this process knows that it is there. */

import { hash } from 'node:crypto'
import { unlessAborted } from '#lib/backoff.ts'
import { createLru } from '#lib/lru.ts'
import { pathPart } from '#lib/path-part.ts'
import { NodeFault, type NodeSession, type RunNode } from '../nodes.ts'
import { beginningOf, type SendToNode, unavailable } from './connections.ts'

const knownMax = 100_000
/** Sessions that are made ahead of their runs at once, so that a node that hangs keeps few requests open. */
const aheadMax = 100
const createMs = 10_000
const answerBytesMax = 64 * 1024

export type NodeSessions = ReturnType<typeof createNodeSessions>

export function createNodeSessions(send: SendToNode) {
  // Keys are hashes: user and session ids may be long.
  const known = createLru<string, true>(knownMax)
  // No more than runs of this dispatcher, and those ahead.
  const making = new Map<string, Promise<void>>()

  function make(key: string, of: NodeSession): Promise<void> {
    const made = making.get(key) ?? create(key, of).finally(() => making.delete(key))
    making.set(key, made)
    return made
  }

  async function create(key: string, { node, userId, sessionId }: NodeSession): Promise<void> {
    const sessions = `/apps/${pathPart(node.app)}/users/${pathPart(userId)}/sessions`
    // Both dialects take an id in the path; Python alone takes it in the body, which an id with a slash needs.
    const inPath = { path: `${sessions}/${pathPart(sessionId)}`, body: {} }
    const inBody = { path: sessions, body: { sessionId } }
    const ways = sessionId.includes('/') ? [inBody] : [inPath, inBody]
    let status = 0
    for (const { path, body } of ways) {
      status = await post(node, path, body)
      // 409: it is there already.
      if ((status >= 200 && status < 300) || status === 409) {
        known.set(key, true)
        return
      }
      if (status !== 404 && status !== 405) break
    }
    throw noSession(status)
  }

  /** Its time is bounded by itself: those who wait for it may come and go. */
  async function post(node: RunNode, path: string, body: object): Promise<number> {
    try {
      const answer = await send(node, { method: 'POST', path, body, silenceMs: createMs })
      // The status says it all; the rest is read so that the connection can be used again.
      beginningOf(answer.body, answerBytesMax).catch(() => {})
      return answer.statusCode
    } catch (error) {
      throw unavailable(error)
    }
  }

  return {
    /** Begins to make the session of a run that may be called in a moment; `ensure` waits for it, and says where it fails. */
    prepare(of: NodeSession): void {
      const key = keyOf(of)
      if (known.get(key) || making.size >= aheadMax) return
      make(key, of).catch(() => {})
    },
    /** Throws NodeFault when there is none and none can be made (`agent_error`: it never will), or the signal's reason. */
    async ensure(of: NodeSession, signal: AbortSignal): Promise<void> {
      const key = keyOf(of)
      if (!known.get(key)) await unlessAborted(make(key, of), signal)
    },
    /** The node says that it does not know the session. */
    forget: (of: NodeSession) => void known.delete(keyOf(of)),
  }
}

/** What it says about this session does not change by asking again; ADK's paths, for one, take no user id with a slash. */
function noSession(status: number): NodeFault {
  if ([400, 404, 405, 413, 414, 422].includes(status)) {
    return new NodeFault(
      'agent_error',
      `The node makes no session with this user id and session id (HTTP ${status}).`,
    )
  }
  return new NodeFault('unavailable', `The node makes no session (HTTP ${status}).`)
}

function keyOf({ node, userId, sessionId }: NodeSession): string {
  return hash('sha256', JSON.stringify([node.url, node.app, userId, sessionId]), 'base64')
}
