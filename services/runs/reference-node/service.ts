/**
 * The reference nodes as a service: with embedded engines the six agents of the fleet answer in the platform's own process.
 * What the first start makes is kept: port, token, the nodes file, and the provisioned agents.
 */

import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { type Static, Type } from 'typebox'
import type { Relational } from '#engines/relational/port.ts'
import type { Environment } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import { writeByRename } from '#runtime/start/addresses.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import { choicesOf, homeOf } from '#runtime/start/settings.ts'
import {
  defaultKeyFile,
  type NewAgent,
  placePrivateKey,
  provisionAgent,
} from '#services/access/agents/agents.ts'
import { loadNodes } from '../nodes/nodes.ts'
import { type NodeState, readNodeStates } from '../state/node-rows.ts'
import { createFacts } from './facts.ts'
import { modelOf, modelSettings } from './model.ts'
import type { NodeServer } from './node-server.ts'
import { type NodeAgent, referenceAgents } from './roster.ts'

const config = Type.Object({
  ...modelSettings.properties,
  NODES_PORT: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 65_535,
      description:
        'port of the reference nodes on the loopback, 8084 without it; where it is taken, and for 0, a free one',
    }),
  ),
})

type Context = ServiceContext<'relational', Static<typeof config>>

const host = '127.0.0.1'
const defaultPort = 8_084

export const referenceNodes = defineWorker({
  name: 'reference-nodes',
  purpose: 'answers as the six agents of the nodes file that ships, where the engines are embedded',
  needs: ['relational'],
  config,
  load: () => Promise.all([import('./agents.ts'), import('./node-server.ts')]),
  start: startReferenceNodes,
})

async function startReferenceNodes(context: Context): Promise<Closeable> {
  const { env, engines, log } = context
  const { relational, eventLog } = choicesOf(env)
  // Agents of a distributed platform run elsewhere. A nodes file of one's own names one's own nodes.
  if (!relational.embedded || !eventLog.embedded || env.RUN_NODES_FILE) return { async close() {} }
  const home = homeOf(env)
  const kept = readKept(home)
  const scope = createScope()
  try {
    const { openReferenceAgents } = await import('./agents.ts')
    const fleet = scope.add(
      'agents',
      openReferenceAgents({
        agents: referenceAgents,
        memoryOf: ({ slug }) => ({ agentId: slug, privateKeyFile: defaultKeyFile(home, slug), home }),
        facts: createFacts({ home, nodes: () => namedNodes(engines.relational, env) }),
        compose: modelOf(context.config),
        log,
      }),
    )
    const server = scope.add('server', await listen(context, fleet.agents, kept))
    const port = Number(new URL(server.url).port)
    keepNodesFile(home, kept, { ...kept, port }, log)
    const provisioned = await provisionOnce({ relational: engines.relational, home, log }, kept.provisioned)
    writeByRename(join(home, keptName), { ...kept, port, provisioned })
    const { OPENAI_BASE_URL, OPENAI_MODEL } = context.config
    const model = OPENAI_BASE_URL === undefined ? 'none' : OPENAI_MODEL
    log.info({ url: server.url, agents: [...fleet.agents.keys()], model }, 'reference-nodes.ready')
    return scope
  } catch (error) {
    await scope.close()
    throw error
  }
}

/** The state of the nodes that the file names; of all that were there where it cannot be read. */
async function namedNodes(relational: Relational, env: Environment): Promise<NodeState[]> {
  const states = await readNodeStates(relational)
  try {
    const named = new Set(loadNodes(env).nodes.map(({ slug }) => slug))
    return states.filter(({ slug }) => named.has(slug))
  } catch {
    return states
  }
}

/** The port of the last start, unless another one is asked for: the nodes file may have been edited since. */
async function listen(
  { config: { NODES_PORT }, log }: Context,
  agents: ReadonlyMap<string, NodeAgent>,
  { port, token }: Kept,
): Promise<NodeServer> {
  const { openNodeServer } = await import('./node-server.ts')
  const onFault = (app: string, fault: string) => log.warn({ agent: app, fault }, 'reference-node.failed')
  const options = { agents, host, token, onFault }
  try {
    return await openNodeServer({ ...options, port: NODES_PORT || (port ?? NODES_PORT ?? defaultPort) })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    // No reason to stop the start: nothing but the nodes file knows the port.
    if (NODES_PORT) log.warn({ port: NODES_PORT }, 'reference-nodes.port-in-use')
    return await openNodeServer({ ...options, port: 0 })
  }
}

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
function readKept(home: string): Kept {
  const made: Kept = { port: undefined, token: randomBytes(24).toString('base64url'), provisioned: [] }
  try {
    return { ...made, ...(JSON.parse(readFileSync(join(home, keptName), 'utf8')) as Partial<Kept>) }
  } catch {
    return made
  }
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
  // Files of earlier versions have no skills.
  const made = [nodesFileOf(before), nodesFileOf(before, { skills: false })]
  if (found === null || made.includes(found)) {
    // The dispatcher may read it at any time, and never half of it.
    const draft = `${path}.${process.pid}`
    writeFileSync(draft, text, { mode: 0o600 })
    renameSync(draft, path)
  } else if (now.port !== before.port) {
    const hint = 'the nodes file was edited, so their new port is not in it'
    log.warn({ path, port: now.port, hint }, 'reference-nodes.moved')
  }
}

function nodesFileOf({ port, token }: Pick<Kept, 'port' | 'token'>, has = { skills: true }): string {
  const entries = referenceAgents.map(({ slug, codename, role, skills }) => [
    `  ${slug}:`,
    `    codename: ${codename}`,
    `    role: ${role}`,
    ...(has.skills ? [`    skills: [${skills.map((skill) => JSON.stringify(skill)).join(', ')}]`] : []),
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
  const provisioned: string[] = []
  for (const { slug, codename, role } of missing) {
    const agent: NewAgent = { agentId: slug, name: codename, role, access: 'member' }
    const directory = dirname(defaultKeyFile(home, slug))
    try {
      await placePrivateKey({ directory }, (key) => provisionAgent(relational, agent, key))
      provisioned.push(slug)
    } catch (error) {
      if (!(error instanceof AppError && taken.has(error.code))) throw error
      log.info({ agent: slug, reason: error.code }, 'reference-nodes.not-provisioned')
    }
  }
  if (provisioned.length > 0) log.info({ agents: provisioned }, 'reference-nodes.provisioned')
  return [...done, ...missing.map(({ slug }) => slug)]
}
