/** `flotilla agents`: who may use the platform. */

import { dirname, resolve } from 'node:path'
import { Argument, InvalidArgumentError, Option, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import type { Platform } from '#runtime/platform.ts'
import {
  type Access,
  type Agent,
  type AgentChanged,
  accessLevels,
  agentIdPattern,
  defaultKeyFile,
  deleteAgent,
  listAgents,
  placePrivateKey,
  provisionAgent,
  rotateAgent,
  setAgentTier,
  showAgent,
  type Tier,
  tiers,
  waitUntilPublished,
} from '#services/identity/agents/agents.ts'
import { type Cli, describe } from '../cli.ts'
import { defineCommand } from '../command.ts'
import { fields, table } from '../output.ts'
import { registerShow } from './agents-show.ts'

const services = ['outbox-publisher']

export interface AgentView {
  agent_id: string
  uid: string
  role: string
  access: Access
  tier: Tier
  /** Operations a day; null for the tier's own figure. */
  quota: number | null
  public_key_fingerprint: string
}

export interface ProvisionArgs {
  agentId: string
  role?: string
  access?: Access
  tier?: Tier
  quota?: number
  /** Absolute. Default: agents/<id> below the data directory. */
  volume?: string
  force?: boolean
}

export const provisionCommand = defineCommand<ProvisionArgs, AgentView & { private_key_file: string }>({
  name: 'agents provision',
  needs: [],
  services,
  async run({ platform }, { volume, force, ...input }) {
    const { agent, privateKeyFile } = await placePrivateKey(
      placeOf(platform, input.agentId, volume, force),
      () => provisionAgent(platform.engines.relational, input),
    )
    return { ...viewOf(agent), private_key_file: privateKeyFile }
  },
})

export const rotateCommand = defineCommand<
  Pick<ProvisionArgs, 'agentId' | 'volume' | 'force'>,
  AgentView & { private_key_file: string }
>({
  name: 'agents rotate',
  needs: [],
  services,
  async run({ platform }, { agentId, volume, force }) {
    const { relational } = platform.engines
    // Its own spelling names the folder, in whatever case it was asked for.
    const known = await showAgent(relational, agentId)
    const { agent, privateKeyFile, outboxId } = await placePrivateKey(
      placeOf(platform, known.agent_id, volume, force),
      () => rotateAgent(relational, agentId),
    )
    await waitUntilPublished(relational, outboxId)
    return { ...viewOf(agent), private_key_file: privateKeyFile }
  },
})

export const deleteCommand = defineCommand<{ agentId: string }, AgentView & { deleted: true }>({
  name: 'agents delete',
  needs: [],
  services,
  async run({ platform }, { agentId }) {
    const agent = await published(platform, deleteAgent(platform.engines.relational, agentId))
    return { ...viewOf(agent), deleted: true }
  },
})

export const tierCommand = defineCommand<{ agentId: string; tier: Tier }, AgentView>({
  name: 'agents tier',
  needs: [],
  services,
  async run({ platform }, { agentId, tier }) {
    return viewOf(await published(platform, setAgentTier(platform.engines.relational, agentId, tier)))
  },
})

export const listCommand = defineCommand<object, { agents: AgentView[] }>({
  name: 'agents list',
  needs: [],
  async run({ platform }) {
    return { agents: (await listAgents(platform.engines.relational)).map(viewOf) }
  },
})

/** What every command tells of an agent. */
export function viewOf(agent: Agent): AgentView {
  const { agent_id, uid, role, access, tier, quota, public_key_fingerprint } = agent
  return { agent_id, uid, role, access, tier, quota, public_key_fingerprint }
}

function placeOf(platform: Platform, agentId: string, volume?: string, force?: boolean) {
  // It becomes the name of a folder: looked at before one is made.
  if (!agentIdPattern.test(agentId)) {
    throw new AppError(
      'validation_failed',
      'An agent id has 1 to 64 letters, digits, dots, underscores or hyphens.',
    )
  }
  const directory = volume ?? dirname(defaultKeyFile(platform.home, agentId))
  return { directory, ...(force ? { force } : {}) }
}

/** The change acts on every instance when this resolves. */
async function published(platform: Platform, changing: Promise<AgentChanged>): Promise<Agent> {
  const { agent, outboxId } = await changing
  await waitUntilPublished(platform.engines.relational, outboxId)
  return agent
}

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
    await cli.run(listCommand, {}, { json, render: renderList })
  })
  registerShow(agents, cli)
  const rotate = keyOptions(agents.command('rotate').argument('<agent-id>')).description(
    'a new key pair; the old key and everything opened with it end',
  )
  describe(rotate, 'flotilla agents rotate scout --force').action(
    async (agentId: string, { json, ...place }: KeyOptions) => {
      const args = { agentId, ...absolute(place) }
      await cli.run(rotateCommand, args, { json, render: (agent) => fields({ ...agent }) })
    },
  )
  const remove = agents.command('delete').argument('<agent-id>').description('the agent and all its keys end')
  describe(remove, 'flotilla agents delete scout').action(async (agentId: string, { json }: KeyOptions) => {
    await cli.run(deleteCommand, { agentId }, { json, render: (agent) => `${agent.agent_id} is deleted` })
  })
  const tier = agents
    .command('tier')
    .argument('<agent-id>')
    .addArgument(new Argument('<tier>').choices(tiers))
    .description('its daily operations, burst and concurrency')
  describe(tier, 'flotilla agents tier scout research-agent').action(
    async (agentId: string, value: Tier, { json }: KeyOptions) => {
      const render = (agent: AgentView) => `${agent.agent_id} has the tier ${agent.tier}`
      await cli.run(tierCommand, { agentId, tier: value }, { json, render })
    },
  )
}

interface ProvisionOptions extends KeyOptions {
  agentId: string
  role?: string
  access?: Access
  tier?: Tier
  quota?: number
}

function registerProvision(agents: Program, cli: Cli): void {
  const provision = agents
    .command('provision')
    .description('make an agent; its private key is written once and kept nowhere else')
    .requiredOption('--agent-id <id>', 'letters, digits, dots, underscores, hyphens; at most 64')
    .option('--role <role>', 'a free label (default: knowledge-worker)')
    .addOption(
      new Option('--access <access>', 'rights on the main API (default: member)').choices(accessLevels),
    )
    .option('--quota <operations>', "operations a day instead of the tier's own", wholeNumber)
    .addOption(new Option('--tier <tier>', 'limits (default: agent)').choices(tiers))
  describe(
    keyOptions(provision),
    'flotilla agents provision --agent-id scout --role researcher --json',
  ).action(async ({ json, ...options }: ProvisionOptions) => {
    const args = { ...options, ...absolute(options) }
    await cli.run(provisionCommand, args, { json, render: (agent) => fields({ ...agent }) })
  })
}

function keyOptions(command: Program): Program {
  return command
    .option('--volume <dir>', 'where ed25519.pem is written (default: agents/<id> in the data directory)')
    .option('--force', 'replace a key that lies there')
}

/** The running platform may have another working directory than the command. */
function absolute({ volume, force }: KeyOptions): { volume?: string; force?: boolean } {
  return { ...(volume === undefined ? {} : { volume: resolve(volume) }), ...(force ? { force } : {}) }
}

function wholeNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number, 0 or more.')
}

function renderList({ agents }: { agents: AgentView[] }): string {
  const rows = agents.map((agent) => [
    agent.agent_id,
    agent.role,
    agent.access,
    agent.tier,
    agent.quota,
    agent.public_key_fingerprint,
  ])
  return table(['agent', 'role', 'access', 'tier', 'quota', 'key'], rows)
}
