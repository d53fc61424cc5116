/** `flotilla agents`: who may use the platform. */

import { dirname } from 'node:path'
import { AppError } from '#lib/errors.ts'
import type { Platform } from '#runtime/platform.ts'
import {
  type Access,
  type Agent,
  type AgentChanged,
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
  waitUntilPublished,
} from '#services/identity/agents/agents.ts'
import { defineCommand } from './operation.ts'

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
