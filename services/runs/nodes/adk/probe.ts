/** Asks a node whether it serves its agent. */

import { NodeFault, type RunNode } from '../types.ts'
import { beginningOf, createConnections, type SendToNode } from './connections.ts'
import { unavailable } from './faults.ts'

const probeMs = 2_000
const answerBytesMax = 1024 * 1024

export type ProbeNode = (node: RunNode, signal: AbortSignal) => Promise<void>

/** `send` is of tests. */
export function createProbeNode(send: SendToNode = createConnections()): ProbeNode {
  return async function probeNode(node, signal) {
    try {
      const within = AbortSignal.any([signal, AbortSignal.timeout(probeMs)])
      const request = { method: 'GET', path: '/list-apps', silenceMs: probeMs, signal: within } as const
      const { statusCode, body } = await send(node, request)
      const text = (await beginningOf(body, answerBytesMax)).toString('utf8')
      if (statusCode !== 200) throw new NodeFault('unavailable', `The node answered HTTP ${statusCode}.`)
      if (!servesApp(text, node.app)) {
        throw new NodeFault('unavailable', `The node has no app ${node.app}.`)
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : unavailable(error)
    }
  }
}

/** Resolves within two seconds when the node serves its app; else throws NodeFault `unavailable`, or the signal's reason. */
export const probeNode: ProbeNode = createProbeNode()

function servesApp(text: string, app: string): boolean {
  try {
    const apps: unknown = JSON.parse(text)
    return Array.isArray(apps) && apps.includes(app)
  } catch {
    return false
  }
}
