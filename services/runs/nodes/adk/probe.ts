/** Asks a node whether it serves its agent. */

import { NodeFault, type RunNode } from '../types.ts'
import { beginningOf, createConnections, type SendToNode, unavailable } from './connections.ts'

const probeMs = 2_000
const answerBytesMax = 1024 * 1024

type ProbeNode = (node: RunNode, signal: AbortSignal) => Promise<void>

/** `send` is of tests. */
export function createProbeNode(send: SendToNode = createConnections()): ProbeNode {
  /** Probes in flight, by address and headers: a server of many agents is probed once. */
  const asking = new Map<string, Promise<string>>()

  async function ask(node: RunNode, signal: AbortSignal): Promise<string> {
    const within = AbortSignal.any([signal, AbortSignal.timeout(probeMs)])
    const request = { method: 'GET', path: '/list-apps', silenceMs: probeMs, signal: within } as const
    const { statusCode, body } = await send(node, request)
    const text = (await beginningOf(body, answerBytesMax)).toString('utf8')
    if (statusCode !== 200) throw new NodeFault('unavailable', `The node answered HTTP ${statusCode}.`)
    return text
  }

  return async function probeNode(node, signal) {
    const server = JSON.stringify([node.url, node.headers])
    try {
      let answer = asking.get(server)
      if (!answer) {
        answer = ask(node, signal).finally(() => asking.delete(server))
        asking.set(server, answer)
      }
      if (!servesApp(await answer, node.app)) {
        throw new NodeFault('unavailable', `The node has no app ${node.app}.`)
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : unavailable(error)
    }
  }
}

/**
 * Resolves within two seconds when the node serves its app; else throws NodeFault `unavailable`, or the signal's reason.
 * Nodes of one server that are asked at the same time share its answer, and the signal of the first.
 */
export const probeNode: ProbeNode = createProbeNode()

function servesApp(text: string, app: string): boolean {
  try {
    const apps: unknown = JSON.parse(text)
    return Array.isArray(apps) && apps.includes(app)
  } catch {
    return false
  }
}
