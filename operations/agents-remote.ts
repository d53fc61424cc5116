/**
 * Key pairs for callers that cannot read a file here: the private key lies in a volume of theirs, or is in the result and
 * nowhere else.
 */

import { Type } from 'typebox'
import {
  type AgentChanged,
  type AgentKey,
  placePrivateKey,
  provisionAgent,
  rotateAgent,
  showAgent,
  waitUntilPublished,
} from '#services/access/agents/agents.ts'
import { type AgentView, agentServices, agentSettings, noteOf, placeOf, viewOf } from './agents.ts'
import { type ChangeContext, defineChange } from './change.ts'
import type { OperatedPlatform } from './operation.ts'

export type RemoteAgent = AgentView & { private_key?: string }

const volume = {
  /** Absolute. */
  volume: Type.Optional(Type.String()),
  force: Type.Optional(Type.Boolean()),
}

export const provisionRemoteOperation = defineChange({
  name: 'agents provision remote',
  action: 'agent.provision',
  targetOf: ({ agentId }) => agentId,
  needs: [],
  services: agentServices,
  args: Type.Object({ agentId: Type.String(), ...agentSettings, ...volume }),
  async run(context: ChangeContext, { volume, force, ...input }): Promise<RemoteAgent> {
    const { relational } = context.platform.engines
    const placed = await withKey(context.platform, { agentId: input.agentId, volume, force }, (key) =>
      provisionAgent(relational, input, key, noteOf(context)),
    )
    return placed.shown
  },
})

export const rotateRemoteOperation = defineChange({
  name: 'agents rotate remote',
  action: 'agent.rotate',
  targetOf: ({ agentId }) => agentId,
  needs: [],
  services: agentServices,
  args: Type.Object({ agentId: Type.String(), ...volume }),
  async run(context: ChangeContext, { agentId, volume, force }): Promise<RemoteAgent> {
    const { relational } = context.platform.engines
    const { agent_id } = await showAgent(relational, agentId)
    const placed = await withKey(context.platform, { agentId: agent_id, volume, force }, (key) =>
      rotateAgent(relational, agentId, key, noteOf(context)),
    )
    await waitUntilPublished(relational, placed.outboxId)
    return placed.shown
  },
})

interface Wanted {
  agentId: string
  volume: string | undefined
  force: boolean | undefined
}

async function withKey(
  platform: OperatedPlatform,
  { agentId, volume, force }: Wanted,
  work: (key?: AgentKey) => Promise<AgentChanged & { privateKeyPem: string }>,
): Promise<{ shown: RemoteAgent; outboxId: number }> {
  if (volume === undefined) {
    const { agent, outboxId, privateKeyPem } = await work()
    return { shown: { ...viewOf(agent), private_key: privateKeyPem }, outboxId }
  }
  const { agent, outboxId } = await placePrivateKey(placeOf(platform, agentId, volume, force), work)
  return { shown: viewOf(agent), outboxId }
}
