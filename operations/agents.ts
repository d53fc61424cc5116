/** Who may use the platform: agents are provisioned, listed, given another key or tier, and deleted. */

import { dirname } from 'node:path'
import { Type } from 'typebox'
import {
  type Access,
  type Agent,
  type AgentNote,
  accessLevels,
  checkAgentId,
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
} from '#services/access/agents/agents.ts'
import { type ChangeContext, defineChange } from './change.ts'
import { defineOperation, type OperatedPlatform } from './operation.ts'

/** Of changes that every instance has to know before the command is done. */
export const agentServices = ['outbox-publisher']

export interface AgentView {
  agent_id: string
  uid: string
  name: string
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

/** What provisioning answers: documented field by field. */
type AgentWithKey = Omit<AgentView, 'name' | 'burst' | 'concurrent'> & { private_key_file: string }

/** Where a private key is written, and whether it may replace one. */
const keyPlace = {
  /** Absolute. Default: agents/<id> below the data directory. */
  volume: Type.Optional(Type.String()),
  force: Type.Optional(Type.Boolean()),
}

const figure = Type.Optional(Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]))

/** What an operator may set, at once or later. */
export const agentSettings = {
  name: Type.Optional(Type.String()),
  role: Type.Optional(Type.String()),
  access: Type.Optional(Type.Enum(accessLevels)),
  tier: Type.Optional(Type.Enum(tiers)),
  quota: figure,
  burst: figure,
  concurrent: figure,
}

export const provisionAgentOperation = defineChange({
  name: 'agents provision',
  action: 'agent.provision',
  targetOf: ({ agentId }) => agentId,
  needs: [],
  services: agentServices,
  args: Type.Object({
    agentId: Type.String(),
    ...agentSettings,
    ...keyPlace,
  }),
  async run(context: ChangeContext, { volume, force, ...input }): Promise<AgentWithKey> {
    const { platform } = context
    const place = placeOf(platform, input.agentId, volume, force)
    const { agent, privateKeyFile } = await placePrivateKey(place, (key) =>
      provisionAgent(platform.engines.relational, input, key, noteOf(context)),
    )
    return withKeyFile(agent, privateKeyFile)
  },
})

export const rotateAgentOperation = defineChange({
  name: 'agents rotate',
  action: 'agent.rotate',
  targetOf: ({ agentId }) => agentId,
  needs: [],
  services: agentServices,
  args: Type.Object({ agentId: Type.String(), ...keyPlace }),
  async run(context: ChangeContext, { agentId, volume, force }): Promise<AgentWithKey> {
    const { platform } = context
    const { relational } = platform.engines
    // Its own spelling names the folder, in whatever case it was asked for.
    const known = await showAgent(relational, agentId)
    const place = placeOf(platform, known.agent_id, volume, force)
    const { agent, privateKeyFile, outboxId } = await placePrivateKey(place, (key) =>
      rotateAgent(relational, agentId, key, noteOf(context)),
    )
    await waitUntilPublished(relational, outboxId)
    return withKeyFile(agent, privateKeyFile)
  },
})

export const deleteAgentOperation = defineChange({
  name: 'agents delete',
  action: 'agent.delete',
  targetOf: ({ agentId }) => agentId,
  needs: [],
  services: agentServices,
  args: Type.Object({ agentId: Type.String() }),
  async run(context: ChangeContext, { agentId }): Promise<AgentView & { deleted: true }> {
    const { platform } = context
    const deleting = deleteAgent(platform.engines.relational, agentId, noteOf(context))
    const { agent } = await published(platform, deleting)
    return { ...viewOf(agent), deleted: true }
  },
})

export const updateAgentOperation = defineChange({
  name: 'agents update',
  action: 'agent.update',
  targetOf: ({ agentId }) => agentId,
  needs: [],
  services: agentServices,
  args: Type.Object({ agentId: Type.String(), ...agentSettings }),
  async run(context: ChangeContext, { agentId, ...changes }): Promise<AgentView> {
    const { platform } = context
    const updating = updateAgent(platform.engines.relational, agentId, changes, noteOf(context))
    const { agent } = await published(platform, updating)
    return viewOf(agent)
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
  const { agent_id, uid, name, role, access, tier, quota, burst, concurrent, public_key_fingerprint } = agent
  return { agent_id, uid, name, role, access, tier, quota, burst, concurrent, public_key_fingerprint }
}

function withKeyFile(agent: Agent, private_key_file: string): AgentWithKey {
  const { name: _, burst: __, concurrent: ___, ...shown } = viewOf(agent)
  return { ...shown, private_key_file }
}

/** Notes the agent as it was and as it is, in the transaction of its change. */
export function noteOf({ note }: ChangeContext): AgentNote {
  const shown = (agent: Agent | null) => agent && viewOf(agent)
  return (tx, { before, after }) =>
    note(tx, {
      target: (after ?? before)!.agent_id,
      before: shown(before),
      after: shown(after),
    })
}

export function placeOf(platform: OperatedPlatform, agentId: string, volume?: string, force?: boolean) {
  // It becomes the name of a folder: checked before one is made.
  checkAgentId(agentId)
  const directory = volume ?? dirname(defaultKeyFile(platform.home, agentId))
  return { directory, ...(force ? { force } : {}) }
}

/** The change acts on every instance when this resolves. */
export async function published<C extends { outboxId: number }>(
  platform: OperatedPlatform,
  changing: Promise<C>,
): Promise<C> {
  const changed = await changing
  await waitUntilPublished(platform.engines.relational, changed.outboxId)
  return changed
}
