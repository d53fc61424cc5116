/** What an agent behind a node is, what a role is, and the six agents of the reference nodes. */

import type { Facts } from './facts.ts'
import type { Found, Memory } from './memory.ts'

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

/** A question, and what an answer is made from. */
export interface Asked {
  /** As the run names its user. */
  userId: string
  memory: Memory
  facts: Facts
  signal: AbortSignal
  /** Resolves with undefined where it could not be read, which the answer then says. */
  read<T>(what: string, from: () => Promise<T>): Promise<T | undefined>
  /** Records about the question, the best first. */
  search(collections: readonly string[], limit: number): Promise<Found[] | undefined>
}

export interface Answer {
  /** Markdown. The first one says the answer in a sentence. Empty ones are left out. */
  paragraphs: string[]
  /** Records behind it, the best first. */
  found: readonly Found[]
}

export type Role = (asked: Asked) => Promise<Answer>

/** Where agents look whose answer is not about records. */
export const usual = ['knowledgebase', 'fleet_notes'] as const

export interface ReferenceAgent {
  /** Its path at the run gateway, its app's name at the node, and its agent id. */
  slug: string
  codename: string
  role: string
}

export const orchestratorSlug = 'axon'

export const referenceAgents: readonly (ReferenceAgent & { skills: readonly string[] })[] = [
  {
    slug: 'whale',
    codename: 'WHALE',
    role: 'Large capacity and deep analysis',
    skills: ['Search in all collections', 'Long answers with passages'],
  },
  {
    slug: 'pulse',
    codename: 'PULSE',
    role: 'Health and status monitoring',
    skills: ['Health of engines, nodes and webhook targets', 'Lag of reader groups', 'Dead letters'],
  },
  {
    slug: 'cipher',
    codename: 'CIPHER',
    role: 'Security and privacy',
    skills: ['Failed handshakes', 'Roles and permissions'],
  },
  {
    slug: 'atlas',
    codename: 'ATLAS',
    role: 'Documentation and memory',
    skills: ['Search in documents', 'Passages and paths', 'Notes'],
  },
  { slug: 'nexus', codename: 'NEXUS', role: 'Integration', skills: ['Webhook targets', 'Nodes of agents'] },
  {
    slug: orchestratorSlug,
    codename: 'AXON',
    role: 'Orchestration',
    skills: ['Conclusions of dispatches', 'Whom to ask'],
  },
]
