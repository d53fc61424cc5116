/**
 * The agents of the platform: provisioning, changing and deleting them, each change with its outbox record in one
 * transaction. Used by the command line and by every service that manages agents.
 */

import { ulid } from 'ulid'
import { type Relational, type SqlExecutor, sqlState } from '#engines/relational/port.ts'
import { AppError, invalidField } from '#lib/errors.ts'
import {
  type Access,
  type AgentSettings,
  agentIdPattern,
  checkNewAgent,
  checkSettings,
  type NewAgent,
  type Tier,
} from './agent-settings.ts'
import {
  type AgentChangeKind,
  type ChangeDetails,
  writeAgentChange,
  writeAgentTerminated,
} from './changes.ts'
import { type AgentKey, generateAgentKey } from './key-pair.ts'

export {
  type Access,
  type AgentSettings,
  accessLevels,
  agentIdPattern,
  checkAgentId,
  type NewAgent,
  type Tier,
  tiers,
} from './agent-settings.ts'
export { waitUntilPublished } from './changes.ts'
export type { AgentKey } from './key-pair.ts'
export { defaultKeyFile, type KeyPlace, placePrivateKey } from './key-pair.ts'

const defaultRole = 'knowledge-worker'

export interface Agent {
  uid: string
  agent_id: string
  name: string
  /** A free label. */
  role: string
  access: Access
  tier: Tier
  /** Operations a day; null for the tier's own figure. */
  quota: number | null
  /** Operations that begin within any one second, and at once; null for the tier's own figures. */
  burst: number | null
  concurrent: number | null
  /** OpenSSH form: `SHA256:<base64>`. */
  public_key_fingerprint: string
  version: number
  created_at: Date
  updated_at: Date
}

/** What a change leaves: wait with `waitUntilPublished(relational, outboxId)` before saying that it acts everywhere. */
export interface AgentChanged {
  agent: Agent
  outboxId: number
}

/** Called in the transaction of a change, with the agent before and after it; null where there is none. */
export type AgentNote = (
  tx: SqlExecutor,
  change: { before: Agent | null; after: Agent | null },
) => Promise<void>

const columns =
  'uid, agent_id, name, role, access, tier, quota, burst, concurrent, public_key_fingerprint, version, created_at, updated_at'

/**
 * Makes an agent with a new Ed25519 key pair; the private key (PKCS#8 PEM) is in this answer and nowhere else. Throws
 * AppError `agent_exists` (names differ by more than case) or `validation_failed`.
 */
export async function provisionAgent(
  relational: Relational,
  input: NewAgent,
  key: AgentKey = generateAgentKey(),
  note?: AgentNote,
): Promise<AgentChanged & { privateKeyPem: string }> {
  checkNewAgent(input)
  const changed = await relational.transaction(async (tx) => {
    const agent = await insertAgent(tx, input, key)
    await note?.(tx, { before: null, after: agent })
    return { agent, outboxId: await writeAgentChange(tx, agent, 'provisioned') }
  })
  return { ...changed, privateKeyPem: key.privateKeyPem }
}

export async function listAgents(executor: SqlExecutor): Promise<Agent[]> {
  const { rows } = await executor.query<Agent>(
    `select ${columns} from platform.agents order by lower(agent_id)`,
  )
  return rows
}

/** The agent of this id, written in any case. Throws AppError `not_found`. */
export async function showAgent(executor: SqlExecutor, agentId: string): Promise<Agent> {
  if (!agentIdPattern.test(agentId)) refuseUnknown(agentId)
  const { rows } = await executor.query<Agent>(
    `select ${columns} from platform.agents where lower(agent_id) = lower($1)`,
    [agentId],
  )
  return rows[0] ?? refuseUnknown(agentId)
}

/** Gives the agent a new key pair. Its gateway keys and pending challenges end with the old one. */
export async function rotateAgent(
  relational: Relational,
  agentId: string,
  key: AgentKey = generateAgentKey(),
  note?: AgentNote,
): Promise<AgentChanged & { privateKeyPem: string }> {
  const change = async (tx: SqlExecutor, agent: Agent) => {
    await tx.query('delete from platform.challenges where agent_uid = $1', [agent.uid])
    await tx.query('delete from platform.gateway_keys where agent_uid = $1', [agent.uid])
    return updateRow(tx, agent.uid, 'public_key = $2, public_key_fingerprint = $3', [
      key.publicKey,
      key.fingerprint,
    ])
  }
  const changed = await changeAgent(relational, agentId, 'rotated', change, { note })
  return { ...changed, privateKeyPem: key.privateKeyPem }
}

/** Deletes the agent with all its keys and challenges; webhook targets are notified that it is terminated. */
export function deleteAgent(
  relational: Relational,
  agentId: string,
  note?: AgentNote,
): Promise<AgentChanged> {
  const change = async (tx: SqlExecutor, agent: Agent) => {
    await tx.query('delete from platform.refresh_tokens where uid = $1', [agent.uid])
    await tx.query('delete from platform.agents where uid = $1', [agent.uid])
    await writeAgentTerminated(tx, agent.agent_id)
    return { ...agent, version: agent.version + 1 }
  }
  return changeAgent(relational, agentId, 'deleted', change, { note })
}

/** Changes the named settings and leaves the rest. Throws AppError `not_found` or `validation_failed`. */
export async function updateAgent(
  relational: Relational,
  agentId: string,
  settings: AgentSettings,
  note?: AgentNote,
): Promise<AgentChanged> {
  checkSettings(settings)
  const changes = settable.filter((name) => settings[name] !== undefined)
  if (changes.length === 0) throw invalidField('', `must name what is to change: ${settable.join(', ')}`)
  const assignments = changes.map((name, n) => `${name} = $${n + 2}`).join(', ')
  const values = changes.map((name) => settings[name] as string | number | null)
  const change = (tx: SqlExecutor, agent: Agent) => updateRow(tx, agent.uid, assignments, values)
  return changeAgent(relational, agentId, 'updated', change, { note })
}

/** Names of columns, too. */
const settable = ['name', 'role', 'access', 'tier', 'quota', 'burst', 'concurrent'] as const

async function insertAgent(
  tx: SqlExecutor,
  input: NewAgent,
  key: { publicKey: Buffer; fingerprint: string },
): Promise<Agent> {
  try {
    const { rows } = await tx.query<Agent>(
      `insert into platform.agents
         (uid, agent_id, name, role, access, tier, quota, burst, concurrent, public_key, public_key_fingerprint)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning ${columns}`,
      [
        `agent_${ulid().toLowerCase()}`,
        input.agentId,
        input.name ?? input.agentId,
        input.role ?? defaultRole,
        input.access ?? 'member',
        input.tier ?? 'agent',
        input.quota ?? null,
        input.burst ?? null,
        input.concurrent ?? null,
        key.publicKey,
        key.fingerprint,
      ],
    )
    return rows[0]!
  } catch (error) {
    if (sqlState(error) !== '23505') throw error
    throw new AppError('agent_exists', `An agent named ${input.agentId} exists already.`, { cause: error })
  }
}

/**
 * Locks the agent's row first: so its outbox records are written in the order of its changes, and a key that is being
 * issued at this moment (it holds a share of the row) either ends with this change or is never given.
 */
export function changeAgent(
  relational: Relational,
  agentId: string,
  kind: AgentChangeKind,
  change: (tx: SqlExecutor, agent: Agent) => Promise<Agent>,
  { details = {}, note }: { details?: ChangeDetails; note?: AgentNote | undefined } = {},
): Promise<AgentChanged> {
  return relational.transaction(async (tx) => {
    if (!agentIdPattern.test(agentId)) refuseUnknown(agentId)
    const { rows } = await tx.query<Agent>(
      `select ${columns} from platform.agents where lower(agent_id) = lower($1) for update`,
      [agentId],
    )
    const before = rows[0] ?? refuseUnknown(agentId)
    const agent = await change(tx, before)
    await note?.(tx, { before, after: kind === 'deleted' ? null : agent })
    return { agent, outboxId: await writeAgentChange(tx, agent, kind, details) }
  })
}

async function updateRow(
  tx: SqlExecutor,
  uid: string,
  assignments: string,
  values: (string | number | Buffer | null)[],
): Promise<Agent> {
  const { rows } = await tx.query<Agent>(
    `update platform.agents set ${assignments}, version = version + 1, updated_at = now()
     where uid = $1 returning ${columns}`,
    [uid, ...values],
  )
  return rows[0]!
}

/** For a change of something that belongs to the agent: only its version and time move. */
export async function touchAgent(tx: SqlExecutor, { uid }: Agent): Promise<Agent> {
  const { rows } = await tx.query<Agent>(
    `update platform.agents set version = version + 1, updated_at = now() where uid = $1 returning ${columns}`,
    [uid],
  )
  return rows[0]!
}

function refuseUnknown(agentId: string): never {
  throw new AppError('not_found', `There is no agent named ${agentId.slice(0, 64).toWellFormed()}.`)
}
