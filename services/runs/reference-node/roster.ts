/** The six agents of the reference nodes. */

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
