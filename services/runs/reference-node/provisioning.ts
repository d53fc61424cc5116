/** Provisions the agents of the reference nodes, each one once. */

import { dirname } from 'node:path'
import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { defaultKeyFile, placePrivateKey, provisionAgent } from '#services/identity/agents/agents.ts'
import { type ReferenceAgent, referenceAgents } from './roster.ts'

/** An agent of this name, or a key in its place, may be there already: it is left as it is. */
const taken: ReadonlySet<string> = new Set(['agent_exists', 'conflict'])

/** Resolves with the agent ids that need not be looked at again. */
export async function provisionOnce(
  { relational, home, log }: { relational: Relational; home: string; log: Logger },
  done: readonly string[],
): Promise<string[]> {
  const missing = referenceAgents.filter(({ slug }) => !done.includes(slug))
  for (const agent of missing) {
    try {
      await provision(relational, home, agent)
      log.info({ agent: agent.slug }, 'reference-nodes.provisioned')
    } catch (error) {
      if (!(error instanceof AppError && taken.has(error.code))) throw error
      log.info({ agent: agent.slug, reason: error.code }, 'reference-nodes.not-provisioned')
    }
  }
  return [...done, ...missing.map(({ slug }) => slug)]
}

function provision(relational: Relational, home: string, { slug, codename, role }: ReferenceAgent) {
  const directory = dirname(defaultKeyFile(home, slug))
  return placePrivateKey({ directory }, (key) =>
    provisionAgent(relational, { agentId: slug, name: codename, role, access: 'member' }, key),
  )
}
