/** `flotilla agents`: who may use the platform. */

import { resolve } from 'node:path'
import { Argument, InvalidArgumentError, Option, type Command as Program } from 'commander'
import {
  type AgentView,
  deleteAgentOperation,
  listAgentsOperation,
  provisionAgentOperation,
  rotateAgentOperation,
  updateAgentOperation,
} from '#operations/agents.ts'
import { type Access, accessLevels, type Tier, tiers } from '#services/access/agents/agents.ts'
import { type Cli, describe } from '../cli.ts'
import { fields, line, table } from '../output.ts'
import { registerShow } from './agents-show.ts'

interface KeyOptions {
  volume?: string
  force?: boolean
  json?: boolean
}

export function registerAgents(program: Program, cli: Cli): void {
  const agents = program.command('agents').description('who may use the platform, and with which key')
  registerProvision(agents, cli)
  const list = agents.command('list').description('all agents')
  describe(list, 'flotilla agents list').action(async ({ json }: { json?: boolean }) => {
    await cli.run(listAgentsOperation, {}, { json, render: renderList })
  })
  registerShow(agents, cli)
  const rotate = keyOptions(agents.command('rotate').argument('<agent-id>')).description(
    'make a new key pair; the old key and everything opened with it stop working',
  )
  describe(rotate, 'flotilla agents rotate scout --force').action(
    async (agentId: string, { json, ...place }: KeyOptions) => {
      const args = { agentId, ...absolute(place) }
      await cli.run(rotateAgentOperation, args, { json, render: (agent) => fields({ ...agent }) })
    },
  )
  const remove = agents
    .command('delete')
    .argument('<agent-id>')
    .description('delete the agent; all its keys stop working')
  describe(remove, 'flotilla agents delete scout').action(async (agentId: string, { json }: KeyOptions) => {
    await cli.run(
      deleteAgentOperation,
      { agentId },
      { json, render: (agent) => line`${agent.agent_id} is deleted` },
    )
  })
  registerUpdate(agents, cli)
  const tier = agents
    .command('tier')
    .argument('<agent-id>')
    .addArgument(new Argument('<tier>').choices(tiers))
    .description('its daily operations, burst and concurrency')
  describe(tier, 'flotilla agents tier scout research-agent').action(
    async (agentId: string, value: Tier, { json }: KeyOptions) => {
      const render = (agent: AgentView) => line`${agent.agent_id} has the tier ${agent.tier}`
      await cli.run(updateAgentOperation, { agentId, tier: value }, { json, render })
    },
  )
}

interface ProvisionOptions extends KeyOptions {
  agentId: string
  role?: string
  access?: Access
  tier?: Tier
  quota?: number
  burst?: number
  concurrent?: number
}

function registerProvision(agents: Program, cli: Cli): void {
  const provision = agents
    .command('provision')
    .description('make an agent; its private key is written once and kept nowhere else')
    .requiredOption('--agent-id <id>', 'letters, digits, dots, underscores, hyphens; at most 64')
    .option('--role <role>', 'a free label (default: knowledge-worker)')
    .addOption(
      new Option('--access <access>', 'a viewer may only read (default: member)').choices(accessLevels),
    )
    .option('--quota <operations>', "operations a day instead of the tier's own", wholeNumber)
    .option('--burst <operations>', "operations a second instead of the tier's own", wholeNumber)
    .option('--concurrent <operations>', "operations at once instead of the tier's own", wholeNumber)
    .addOption(new Option('--tier <tier>', 'limits (default: agent)').choices(tiers))
  describe(
    keyOptions(provision),
    'flotilla agents provision --agent-id scout --role researcher --json',
  ).action(async ({ json, ...options }: ProvisionOptions) => {
    const args = { ...options, ...absolute(options) }
    await cli.run(provisionAgentOperation, args, { json, render: (agent) => fields({ ...agent }) })
  })
}

interface UpdateOptions {
  name?: string
  role?: string
  access?: Access
  tier?: Tier
  quota?: Figure
  burst?: Figure
  concurrent?: Figure
  json?: boolean
}

type Figure = number | typeof tiersOwn

/** Takes a figure of an agent's own back. */
const tiersOwn = 'default'

function registerUpdate(agents: Program, cli: Cli): void {
  const update = agents
    .command('update')
    .argument('<agent-id>')
    .description('change what is named; it acts at every gateway when the command returns')
    .option('--role <role>', 'a free label')
    .addOption(new Option('--access <access>', 'a viewer may only read').choices(accessLevels))
    .option('--quota <operations>', "operations a day; default: the tier's own", figureOrDefault)
    .option('--burst <operations>', "operations a second; default: the tier's own", figureOrDefault)
    .option('--concurrent <operations>', "operations at once; default: the tier's own", figureOrDefault)
    .addOption(new Option('--tier <tier>', 'limits where no figure is set').choices(tiers))
    .option('--name <name>', 'what people read')
  describe(update, 'flotilla agents update scout --access viewer --burst 100 --quota default').action(
    async (agentId: string, { json, quota, burst, concurrent, ...labels }: UpdateOptions) => {
      const figures = Object.entries({ quota, burst, concurrent })
        .filter(([, figure]) => figure !== undefined)
        .map(([name, figure]) => [name, figure === tiersOwn ? null : figure])
      const args = { agentId, ...labels, ...Object.fromEntries(figures) }
      await cli.run(updateAgentOperation, args, { json, render: (agent) => fields({ ...agent }) })
    },
  )
}

function keyOptions(command: Program): Program {
  return command
    .option('--volume <dir>', 'where ed25519.pem is written (default: agents/<id> in the data directory)')
    .option('--force', 'replace a key file that is already there')
}

/** The running platform may have another working directory than the command. */
function absolute({ volume, force }: KeyOptions): { volume?: string; force?: boolean } {
  return { ...(volume === undefined ? {} : { volume: resolve(volume) }), ...(force ? { force } : {}) }
}

function wholeNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number, 0 or more.')
}

function figureOrDefault(text: string): Figure {
  return text === tiersOwn ? tiersOwn : wholeNumber(text)
}

function renderList({ agents }: { agents: AgentView[] }): string {
  const rows = agents.map((agent) => [
    agent.agent_id,
    agent.role,
    agent.access,
    agent.tier,
    agent.quota,
    agent.burst,
    agent.concurrent,
    agent.public_key_fingerprint,
  ])
  return table(['agent', 'role', 'access', 'tier', 'quota', 'burst', 'concurrent', 'key'], rows)
}
