/** What a node is, and how the dispatcher talks to one, whatever its protocol is. */

import type { Content, RunEvent } from '../state/types.ts'

/** An entry of the nodes file. */
export interface RunNode {
  /** Lower case: the path of the run gateway and the app's name at the node, unless `app` says otherwise. */
  slug: string
  /** In capitals; what `@name` and the bare word mean. */
  codename: string
  role: string
  url: string
  /** The ADK app's name at the node: case-sensitive there. */
  app: string
  /** With the values of ${ENV} put in; never logged. */
  headers: Readonly<Record<string, string>>
  /** Longest time for one run at this node, in ms: at most 300,000, which is the default. */
  timeoutMs: number
  /** Runs at once. */
  concurrency: number
}

/** The nodes of the file that is valid now. */
export interface NodeSet {
  /** In the file's order. */
  readonly nodes: readonly RunNode[]
  bySlug(slug: string): RunNode | undefined
  /** Any case. */
  byCodename(codename: string): RunNode | undefined
  /** Values of ${ENV} of 8 characters or more, for masking. */
  readonly secrets: readonly string[]
}

export interface NodeCall {
  node: RunNode
  runId: string
  userId: string
  sessionId: string
  newMessage: Content
  streaming: boolean
  stateDelta?: Record<string, unknown>
  customMetadata?: Record<string, unknown>
  /** Aborting closes the connection, which is how an ADK node is canceled. */
  signal: AbortSignal
}

/** A session at a node. */
export type NodeSession = Pick<NodeCall, 'node' | 'userId' | 'sessionId'>

/** How the dispatcher talks to nodes. */
export interface NodeCalls {
  /**
   * Events of one run at a node, in order, as clients see them (see RunEvent). Iterating throws a NodeFault, or the
   * signal's reason. An error event of the agent is yielded like any other; the caller decides that the run failed.
   */
  callNode(call: NodeCall): AsyncIterable<RunEvent>
  /** Begins to make the session of a run at its node, which `callNode` then waits for. */
  prepareSession(of: NodeSession): void
  /**
   * Resolves within two seconds when the node serves its app; else throws NodeFault `unavailable`, or the signal's reason.
   * Nodes of one server that are asked at the same time share its answer, and the signal of the first.
   */
  probeNode(node: RunNode, signal: AbortSignal): Promise<void>
}

/**
 * - `unavailable`: nothing of the run began (refused connection, 404 of the app, no session): another attempt is safe;
 * - `lost`: the connection ended in the middle;
 * - `agent_error`: the node says that the agent failed.
 */
type NodeFaultKind = 'unavailable' | 'lost' | 'agent_error'

export class NodeFault extends Error {
  readonly kind: NodeFaultKind
  constructor(kind: NodeFaultKind, message: string) {
    super(message)
    this.name = 'NodeFault'
    this.kind = kind
  }
}
