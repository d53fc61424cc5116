/** Provisions the agents of the reference nodes, each one once. */

import { dirname } from 'node:path'
import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import {
  type AgentKey,
  defaultKeyFile,
  type NewAgent,
  placePrivateKey,
  provisionAgents,
} from '#services/access/agents/agents.ts'
import { type ReferenceAgent, referenceAgents } from './roster.ts'

/** An agent of this name, or a key in its place, may be there already: it is left as it is. */
const taken: ReadonlySet<string> = new Set(['agent_exists', 'conflict'])

interface Parts {
  relational: Relational
  home: string
  log: Logger
}

/** Resolves with the agent ids that need not be looked at again. */
export async function provisionOnce(parts: Parts, done: readonly string[]): Promise<string[]> {
  const missing = referenceAgents.filter(({ slug }) => !done.includes(slug))
  // In one transaction, as none of them is there at a first start; else one by one.
  if (!(await provisioned(parts, missing))) {
    for (const agent of missing) await provisioned(parts, [agent])
  }
  return [...done, ...missing.map(({ slug }) => slug)]
}

/** False when one of them is taken; then none was made. */
async function provisioned(
  { relational, home, log }: Parts,
  agents: readonly ReferenceAgent[],
): Promise<boolean> {
  const ids = agents.map(({ slug }) => slug)
  try {
    if (agents.length > 0) await provision(relational, home, agents)
    log.info({ agents: ids }, 'reference-nodes.provisioned')
    return true
  } catch (error) {
    if (!(error instanceof AppError && taken.has(error.code))) throw error
    log.info({ agents: ids, reason: error.code }, 'reference-nodes.not-provisioned')
    return false
  }
}

/** Every key is in its place before the records are, and is taken away again where they are not. */
async function provision(
  relational: Relational,
  home: string,
  [next, ...others]: readonly ReferenceAgent[],
  made: readonly { agent: NewAgent; key: AgentKey }[] = [],
): Promise<object> {
  if (!next) {
    await provisionAgents(relational, made)
    return {}
  }
  const { slug, codename, role } = next
  const agent: NewAgent = { agentId: slug, name: codename, role, access: 'member' }
  return placePrivateKey({ directory: dirname(defaultKeyFile(home, slug)) }, (key) =>
    provision(relational, home, others, [...made, { agent, key }]),
  )
}
