/** What every action on agents says and needs: the shape of an agent, what may be set of it, and how a change is noted. */

import { type Static, Type } from 'typebox'
import { type Agent, type AgentNote, waitUntilPublished } from '#services/access/agents/agents.ts'
import type { ChangeContext } from '../change.ts'
import type { OperatedPlatform } from '../operation.ts'
import { orNull, role, tier } from '../shapes.ts'

/** Changes that every instance has to know before the command is done need these. */
export const agentServices = ['outbox-publisher']

const figure = (description: string) => orNull(Type.Integer(), description)
const ownFigure = (minimum: number) =>
  Type.Optional(orNull(Type.Integer({ minimum }), "null: the tier's own."))

export const agentFields = {
  agent_id: Type.String(),
  uid: Type.String(),
  name: Type.String(),
  role: Type.String({ description: 'A free label.' }),
  access: role,
  tier,
  quota: figure("Operations a day; null: the tier's own."),
  burst: figure("Operations a second; null: the tier's own."),
  concurrent: figure("Operations at once; null: the tier's own."),
  public_key_fingerprint: Type.String({ description: 'OpenSSH form.' }),
}
export const agent = Type.Object(agentFields, { title: 'Agent' })
export type AgentView = Static<typeof agent>

/** What an operator may set of an agent, at once or later. */
export const agentSettings = {
  role: Type.Optional(Type.String({ description: 'A free label.' })),
  access: Type.Optional(role),
  tier: Type.Optional(tier),
  quota: ownFigure(0),
  burst: ownFigure(1),
  concurrent: ownFigure(1),
}

/** In paths. */
export const agentInPath = Type.String({ minLength: 1, maxLength: 64, examples: ['whale'] })

export const reads = ['relational_engine_unavailable'] as const
export const writes = [...reads, 'not_found', 'log_unavailable'] as const

/** What every action shows of an agent. */
export function viewOf(row: Agent): AgentView {
  const { agent_id, uid, name, role, access, tier, quota, burst, concurrent, public_key_fingerprint } = row
  return { agent_id, uid, name, role, access, tier, quota, burst, concurrent, public_key_fingerprint }
}

/** Notes the agent as it was and as it is, in the transaction of its change. */
export function noteOf({ note }: Pick<ChangeContext, 'note'>): AgentNote {
  const shown = (row: Agent | null) => row && viewOf(row)
  return (tx, { before, after }) =>
    note(tx, {
      target: (after ?? before)!.agent_id,
      before: shown(before),
      after: shown(after),
    })
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
