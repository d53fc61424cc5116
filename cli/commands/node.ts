/** `flotilla node`: a reference node for one agent, as a process of its own. */

import { once } from 'node:events'
import { resolve } from 'node:path'
import type { Command as Program } from 'commander'
import { loadConfig } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { isLoopbackHost } from '#lib/hosts.ts'
import { createScope } from '#lib/resource.ts'
import { createLog, logLevel } from '#runtime/observe/log.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { defaultKeyFile } from '#services/access/agents/agents.ts'
import { loadNodes, type RunNode } from '#services/runs/nodes/nodes.ts'
import { openReferenceAgents } from '#services/runs/reference-node/agents.ts'
import { createFacts } from '#services/runs/reference-node/facts.ts'
import { modelOf, modelSettings } from '#services/runs/reference-node/model.ts'
import { openNodeServer } from '#services/runs/reference-node/node-server.ts'
import { type ReferenceAgent, referenceAgents } from '#services/runs/reference-node/roster.ts'
import { type Cli, numberReader } from '../cli.ts'
import { line, print } from '../output.ts'

interface NodeOptions {
  agent: string
  agentId?: string
  key?: string
  url?: string
  hubUrl?: string
  host: string
  port?: number
}

const tokenVariable = 'FLOTILLA_NODE_TOKEN'

const portOf = numberReader(0, 65_535)

export function registerNode(program: Program, cli: Cli): void {
  program
    .command('node')
    .summary('run a reference node, which answers for one agent')
    .description('run a reference node: an agent that answers from what the fleet knows')
    .requiredOption('--agent <codename>', 'whom it answers for')
    .option('--agent-id <id>', 'the agent that it is at the platform (default: the codename in lower case)')
    .option('--key <file>', "that agent's private key (default: where `flotilla agents provision` puts it)")
    .option('--url <url>', 'of the vector gateway (default: the one that runs on the data directory)')
    .option('--hub-url <url>', 'of the hub (default: the one that runs on the data directory)')
    .option('--host <host>', 'address to listen at', '127.0.0.1')
    .option(
      '--port <port>',
      'port to listen at, 0 takes a free one (default: that of the nodes file)',
      portOf,
    )
    .addHelpText(
      'after',
      `\nCallers must show the token of the agent's entry in the nodes file, or\n${tokenVariable}. With OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL` +
        '\na model composes the answers. It runs until SIGTERM or Ctrl-C.' +
        '\n\nExample:\n  $ flotilla node --agent ATLAS --port 8801',
    )
    .action((options: NodeOptions) => serve(options, cli))
}

async function serve(options: NodeOptions, cli: Cli): Promise<void> {
  const { env, signal } = cli
  const log = createLog({ level: logLevel(env, 'info'), terminal: process.stderr.isTTY })
  const slug = options.agent.toLowerCase()
  const entry = loadNodes(env).bySlug(slug)
  const token = env[tokenVariable] || tokenOf(entry)
  if (!isLoopbackHost(options.host) && token === undefined) {
    throw new AppError(
      'bad_request',
      `At ${options.host} others reach it, too: give ${tokenVariable} a token, and the nodes file the same one.`,
    )
  }
  const scope = createScope()
  try {
    const agent = agentOf(slug, entry)
    const fleet = scope.add(
      'agents',
      openReferenceAgents({
        agents: [agent],
        memoryOf: () => memoryOf(slug, options, cli),
        facts: createFacts({ home: homeOf(env) }),
        compose: modelOf(loadConfig(modelSettings, env)),
        log,
      }),
    )
    const server = scope.add(
      'server',
      await openNodeServer({
        agents: fleet.agents,
        host: options.host,
        port: options.port ?? (entry ? Number(new URL(entry.url).port) : 0),
        token,
        onFault: (app, fault) => log.warn({ agent: app, fault }, 'reference-node.failed'),
      }),
    )
    print(`node_url ${server.url}`)
    if (!entry) print(line`the nodes file does not name ${agent.codename} yet: see docs/nodes.md`)
    print('ready')
    if (!signal.aborted) await once(signal, 'abort')
  } finally {
    await scope.close()
  }
}

function agentOf(slug: string, entry: RunNode | undefined): ReferenceAgent {
  const known = referenceAgents.find((one) => one.slug === slug)
  const codename = entry?.codename ?? known?.codename ?? slug.toUpperCase()
  return { slug: entry?.app ?? slug, codename, role: entry?.role || known?.role || 'Answering questions' }
}

function tokenOf(entry: RunNode | undefined): string | undefined {
  const header = Object.entries(entry?.headers ?? {}).find(([name]) => name.toLowerCase() === 'authorization')
  return header && /^Bearer (.+)$/i.exec(header[1])?.[1]
}

function memoryOf(slug: string, { agentId = slug, key, url, hubUrl }: NodeOptions, { env }: Cli) {
  const home = homeOf(env)
  const privateKeyFile = key === undefined ? defaultKeyFile(home, agentId) : resolve(key)
  return { agentId, privateKeyFile, home, vectorUrl: url, hubUrl }
}
