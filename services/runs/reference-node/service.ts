/** The reference nodes as a service: with embedded engines the six agents of the fleet answer in the platform's own process. */

import { type Static, Type } from 'typebox'
import { type Closeable, createScope } from '#lib/resource.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import { choicesOf, homeOf } from '#runtime/start/settings.ts'
import { defaultKeyFile } from '#services/access/agents/agents.ts'
import { type Kept, keepNodesFile, provisionOnce, readKept, writeKept } from './first-start.ts'
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
  load: () => Promise.all([import('./reference-agents.ts'), import('./node-server.ts')]),
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
    const { openReferenceAgents } = await import('./reference-agents.ts')
    const fleet = scope.add(
      'agents',
      openReferenceAgents({
        agents: referenceAgents,
        memoryOf: ({ slug }) => ({ agentId: slug, privateKeyFile: defaultKeyFile(home, slug), home }),
        compose: modelOf(context.config),
        log,
      }),
    )
    const server = scope.add('server', await listen(context, fleet.agents, kept))
    const port = Number(new URL(server.url).port)
    keepNodesFile(home, kept, { ...kept, port }, log)
    const provisioned = await provisionOnce({ relational: engines.relational, home, log }, kept.provisioned)
    writeKept(home, { ...kept, port, provisioned })
    log.info({ url: server.url, agents: [...fleet.agents.keys()] }, 'reference-nodes.ready')
    return scope
  } catch (error) {
    await scope.close()
    throw error
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
