/** Who may use the platform: agents are provisioned, listed, given another key or tier, and deleted. */

import { dirname } from 'node:path'
import { Type } from 'typebox'
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
  showAgent,
  type Tier,
  tiers,
  updateAgent,
  waitUntilPublished,
} from '#services/identity/agents/agents.ts'
import { defineOperation } from './operation.ts'

const services = ['outbox-publisher']

export interface AgentView {
  agent_id: string
  uid: string
  role: string
  access: Access
  tier: Tier
  /** Operations a day; null for the tier's own figure. */
  quota: number | null
  /** Operations that begin within a second, and at once; null for the tier's own figures. */
  burst: number | null
  concurrent: number | null
  public_key_fingerprint: string
}

type AgentWithKey = Omit<AgentView, 'burst' | 'concurrent'> & { private_key_file: string }

/** Where a private key is written, and whether it may replace one. */
const keyPlace = {
  /** Absolute. Default: agents/<id> below the data directory. */
  volume: Type.Optional(Type.String()),
  force: Type.Optional(Type.Boolean()),
}

const figure = Type.Optional(Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]))

/** What an operator may set, at once or later. */
const settings = {
  name: Type.Optional(Type.String()),
  role: Type.Optional(Type.String()),
  access: Type.Optional(Type.Enum(accessLevels)),
  tier: Type.Optional(Type.Enum(tiers)),
  quota: figure,
  burst: figure,
  concurrent: figure,
}

export const provisionAgentOperation = defineOperation({
  name: 'agents provision',
  needs: [],
  services,
  args: Type.Object({
    agentId: Type.String(),
    ...settings,
    ...keyPlace,
  }),
  async run({ platform }, { volume, force, ...input }): Promise<AgentWithKey> {
    const { agent, privateKeyFile } = await placePrivateKey(
      placeOf(platform, input.agentId, volume, force),
      (key) => provisionAgent(platform.engines.relational, input, key),
    )
    return withKeyFile(agent, privateKeyFile)
  },
})

export const rotateAgentOperation = defineOperation({
  name: 'agents rotate',
  needs: [],
  services,
  args: Type.Object({ agentId: Type.String(), ...keyPlace }),
  async run({ platform }, { agentId, volume, force }): Promise<AgentWithKey> {
    const { relational } = platform.engines
    // Its own spelling names the folder, in whatever case it was asked for.
    const known = await showAgent(relational, agentId)
    const { agent, privateKeyFile, outboxId } = await placePrivateKey(
      placeOf(platform, known.agent_id, volume, force),
      (key) => rotateAgent(relational, agentId, key),
    )
    await waitUntilPublished(relational, outboxId)
    return withKeyFile(agent, privateKeyFile)
  },
})

export const deleteAgentOperation = defineOperation({
  name: 'agents delete',
  needs: [],
  services,
  args: Type.Object({ agentId: Type.String() }),
  async run({ platform }, { agentId }): Promise<AgentView & { deleted: true }> {
    const agent = await published(platform, deleteAgent(platform.engines.relational, agentId))
    return { ...viewOf(agent), deleted: true }
  },
})

export const updateAgentOperation = defineOperation({
  name: 'agents update',
  needs: [],
  services,
  args: Type.Object({ agentId: Type.String(), ...settings }),
  async run({ platform }, { agentId, ...changes }): Promise<AgentView & { name: string }> {
    const agent = await published(platform, updateAgent(platform.engines.relational, agentId, changes))
    return { ...viewOf(agent), name: agent.name }
  },
})

export const listAgentsOperation = defineOperation({
  name: 'agents list',
  needs: [],
  args: Type.Object({}),
  async run({ platform }): Promise<{ agents: AgentView[] }> {
    return { agents: (await listAgents(platform.engines.relational)).map(viewOf) }
  },
})

/** What every operation shows of an agent. */
export function viewOf(agent: Agent): AgentView {
  const { agent_id, uid, role, access, tier, quota, burst, concurrent, public_key_fingerprint } = agent
  return { agent_id, uid, role, access, tier, quota, burst, concurrent, public_key_fingerprint }
}

function withKeyFile(agent: Agent, private_key_file: string): AgentWithKey {
  const { burst: _, concurrent: __, ...shown } = viewOf(agent)
  return { ...shown, private_key_file }
}

function placeOf(platform: Platform, agentId: string, volume?: string, force?: boolean) {
  // It becomes the name of a folder: checked before one is made.
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
