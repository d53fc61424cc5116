/** Writes the nodes file of a first start, which names the reference nodes, and keeps it right until somebody edits it. */

import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Kept } from './kept.ts'
import { referenceAgents } from './roster.ts'

const fileName = 'nodes.yaml'
/** Below what an agent of the tier `agent` may have under way at once. */
const concurrency = 4

/** `before` is what the file would have been made from at the last start: so it is known whether it was edited. */
export function keepNodesFile(home: string, before: Kept, now: Kept, log: Logger): void {
  const path = join(home, fileName)
  const text = nodesFileOf(now)
  const found = existsSync(path) ? readFileSync(path, 'utf8') : null
  if (found === text) return
  if (found === null || found === nodesFileOf(before)) {
    // The dispatcher may read it at any time, and never half of it.
    const draft = `${path}.${process.pid}`
    writeFileSync(draft, text, { mode: 0o600 })
    renameSync(draft, path)
  } else if (now.port !== before.port) {
    log.warn(
      { path, port: now.port },
      'reference-nodes.moved: the nodes file was edited, so their new port is not in it',
    )
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
