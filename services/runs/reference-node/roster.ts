/** What an agent behind a node is, and the six agents of the reference nodes. */

export interface Message {
  /** The text parts. */
  texts: readonly string[]
  userId: string
  sessionId: string
  customMetadata: Readonly<Record<string, unknown>>
}

/** A text as a whole, or a piece of the whole text that comes later. */
export interface Said {
  text: string
  partial?: boolean
}

export interface NodeAgent {
  /** One sentence, for the list of apps. */
  readonly description: string
  /** Ends when the signal aborts; what it throws is shown to the caller as the agent's fault. */
  answer(message: Message, signal: AbortSignal): AsyncIterable<Said>
}

export interface ReferenceAgent {
  /** Its path at the run gateway, its app's name at the node, and its agent id. */
  slug: string
  codename: string
  role: string
}

export const orchestratorSlug = 'axon'

export const referenceAgents: readonly ReferenceAgent[] = [
  { slug: 'whale', codename: 'WHALE', role: 'Large capacity and deep analysis' },
  { slug: 'pulse', codename: 'PULSE', role: 'Health and status monitoring' },
  { slug: 'cipher', codename: 'CIPHER', role: 'Security and privacy' },
  { slug: 'atlas', codename: 'ATLAS', role: 'Documentation and memory' },
  { slug: 'nexus', codename: 'NEXUS', role: 'Integration' },
  { slug: orchestratorSlug, codename: 'AXON', role: 'Orchestration' },
]
