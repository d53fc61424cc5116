/** The first start of the reference nodes, and its files: port, token, the nodes file, and the provisioned agents. */

import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { writeByRename } from '#runtime/start/addresses.ts'
import {
  defaultKeyFile,
  type NewAgent,
  placePrivateKey,
  provisionAgent,
} from '#services/access/agents/agents.ts'
import { referenceAgents } from './roster.ts'

export interface Kept {
  /** Undefined before the first start. */
  port: number | undefined
  /** What callers of the nodes show. */
  token: string
  /** Agent ids: one that was deleted since is not made again. */
  provisioned: string[]
}

const keptName = 'reference-nodes.json'

/** With a new token where there is none. */
export function readKept(home: string): Kept {
  const made: Kept = { port: undefined, token: randomBytes(24).toString('base64url'), provisioned: [] }
  try {
    return { ...made, ...(JSON.parse(readFileSync(join(home, keptName), 'utf8')) as Partial<Kept>) }
  } catch {
    return made
  }
}

export function writeKept(home: string, kept: Kept): void {
  writeByRename(join(home, keptName), kept)
}

const nodesName = 'nodes.yaml'
/** Below what an agent of the tier `agent` may have under way at once. */
const concurrency = 4

/** `before` is what the file would have been made from at the last start: so it is known whether it was edited. */
export function keepNodesFile(home: string, before: Kept, now: Kept, log: Logger): void {
  const path = join(home, nodesName)
  const text = nodesFileOf(now)
  const found = existsSync(path) ? readFileSync(path, 'utf8') : null
  if (found === text) return
  if (found === null || found === nodesFileOf(before)) {
    // The dispatcher may read it at any time, and never half of it.
    const draft = `${path}.${process.pid}`
    writeFileSync(draft, text, { mode: 0o600 })
    renameSync(draft, path)
  } else if (now.port !== before.port) {
    const hint = 'the nodes file was edited, so their new port is not in it'
    log.warn({ path, port: now.port, hint }, 'reference-nodes.moved')
  }
}

function nodesFileOf({ port, token }: Pick<Kept, 'port' | 'token'>): string {
  const entries = referenceAgents.map(({ slug, codename, role }) => [
    `  ${slug}:`,
    `    codename: ${codename}`,
    `    role: ${role}`,
    `    url: http://127.0.0.1:${port}`,
    '    headers:',
    `      Authorization: Bearer ${token}`,
    `    concurrency: ${concurrency}`,
  ])
  return `${[header, 'nodes:', ...entries.flat()].join('\n')}\n`
}

const header = `# The agents that the run gateway reaches, each behind a node that speaks the protocol of ADK's api_server.
# These are the reference nodes, which run within the platform. Put your own in their place, or add some: see docs/nodes.md.
# A change acts within two seconds. The platform rewrites this file (at a new port) only as long as nobody edited it.`

/** An agent of this name, or a key in its place, may be there already: it is left as it is. */
const taken: ReadonlySet<string> = new Set(['agent_exists', 'conflict'])

/** Resolves with the agent ids that need not be looked at again. */
export async function provisionOnce(
  { relational, home, log }: { relational: Relational; home: string; log: Logger },
  done: readonly string[],
): Promise<string[]> {
  const missing = referenceAgents.filter(({ slug }) => !done.includes(slug))
  for (const { slug, codename, role } of missing) {
    const agent: NewAgent = { agentId: slug, name: codename, role, access: 'member' }
    const directory = dirname(defaultKeyFile(home, slug))
    try {
      await placePrivateKey({ directory }, (key) => provisionAgent(relational, agent, key))
      log.info({ agent: slug }, 'reference-nodes.provisioned')
    } catch (error) {
      if (!(error instanceof AppError && taken.has(error.code))) throw error
      log.info({ agent: slug, reason: error.code }, 'reference-nodes.not-provisioned')
    }
  }
  return [...done, ...missing.map(({ slug }) => slug)]
}
