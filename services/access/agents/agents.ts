/**
 * The agents of the platform: provisioning, changing and deleting them, each change with its outbox record in one
 * transaction. Used by the command line and by every service that manages agents.
 */

import { ulid } from 'ulid'
import { type Relational, type SqlExecutor, sqlState } from '#engines/relational/port.ts'
import { AppError, invalidField } from '#lib/errors.ts'
import { grouped } from '#lib/plural.ts'
import { type AgentChangeKind, writeAgentChange, writeAgentTerminated } from './changes.ts'
import { type AgentKey, generateAgentKey } from './key-pair.ts'

export { waitUntilPublished } from './changes.ts'
export { type AgentKey, defaultKeyFile, type KeyPlace, placePrivateKey } from './key-pair.ts'

export const accessLevels = ['admin', 'member', 'viewer'] as const
export type Access = (typeof accessLevels)[number]

export const tiers = ['agent', 'research-agent', 'infra-architect'] as const
export type Tier = (typeof tiers)[number]

export const agentIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
export const agentIdRule =
  '1 to 64 letters, digits, dots, underscores or hyphens, beginning with a letter or digit'
export const labelLengthMax = 64
/** More than this belongs to a tier without limits: the rule keeps a time for each operation of a second. */
const ownFigureMax = 10_000

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

/** Names of columns, too. */
const settable = ['name', 'role', 'access', 'tier', 'quota', 'burst', 'concurrent'] as const

/** What an operator may set. A figure wins over the tier's own; null gives that one back. */
export type AgentSettings = Partial<Pick<Agent, (typeof settable)[number]>>

/** By default its name is the agent id. */
export interface NewAgent extends AgentSettings {
  agentId: string
}

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
  checkAgentId(input.agentId)
  checkSettings(input)
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

/** The agent of this id, written in any case. `lock` is SQL. Throws AppError `not_found`. */
export async function showAgent(executor: SqlExecutor, agentId: string, lock = ''): Promise<Agent> {
  if (!agentIdPattern.test(agentId)) refuseUnknown(agentId)
  const { rows } = await executor.query<Agent>(
    `select ${columns} from platform.agents where lower(agent_id) = lower($1) ${lock}`,
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
    const assignments = ['public_key = $2', 'public_key_fingerprint = $3']
    return updateRow(tx, agent, assignments, [key.publicKey, key.fingerprint])
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
  const assignments = changes.map((name, n) => `${name} = $${n + 2}`)
  const values = changes.map((name) => settings[name] as string | number | null)
  const change = (tx: SqlExecutor, agent: Agent) => updateRow(tx, agent, assignments, values)
  return changeAgent(relational, agentId, 'updated', change, { note })
}

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
  { agentKeyId, note }: { agentKeyId?: string; note?: AgentNote | undefined } = {},
): Promise<AgentChanged> {
  return relational.transaction(async (tx) => {
    const before = await showAgent(tx, agentId, 'for update')
    const agent = await change(tx, before)
    await note?.(tx, { before, after: kind === 'deleted' ? null : agent })
    return { agent, outboxId: await writeAgentChange(tx, agent, kind, agentKeyId) }
  })
}

/** Without assignments only the agent's version and time move: for a change of something that belongs to it. */
export async function updateRow(
  tx: SqlExecutor,
  { uid }: Agent,
  assignments: string[] = [],
  values: (string | number | Buffer | null)[] = [],
): Promise<Agent> {
  const { rows } = await tx.query<Agent>(
    `update platform.agents set ${[...assignments, 'version = version + 1', 'updated_at = now()'].join(', ')}
     where uid = $1 returning ${columns}`,
    [uid, ...values],
  )
  return rows[0]!
}

function refuseUnknown(agentId: string): never {
  throw new AppError('not_found', `There is no agent named ${agentId.slice(0, 64).toWellFormed()}.`)
}

/** Throws AppError `validation_failed`. */
export function checkAgentId(agentId: string): void {
  if (agentIdPattern.test(agentId)) return
  throw invalidField('agent_id', `must be ${agentIdRule}`)
}

/** Throws AppError `validation_failed`. */
function checkSettings({ role, name, access, tier, quota, burst, concurrent }: AgentSettings): void {
  for (const [field, label] of Object.entries({ role, name })) {
    if (label === undefined || isLabel(label)) continue
    throw invalidField(field, `must have 1 to ${labelLengthMax} characters`)
  }
  if (access !== undefined && !accessLevels.includes(access)) {
    throw invalidField('access', `must be one of ${accessLevels.join(', ')}`)
  }
  if (tier !== undefined && !tiers.includes(tier)) {
    throw invalidField('tier', `must be one of ${tiers.join(', ')}`)
  }
  if (!isFigure(quota, 0, Number.MAX_SAFE_INTEGER)) {
    throw invalidField('quota', 'must be a whole number of operations a day, 0 or more')
  }
  for (const [field, figure] of Object.entries({ burst, concurrent })) {
    if (isFigure(figure, 1, ownFigureMax)) continue
    throw invalidField(field, `must be a whole number from 1 to ${grouped(ownFigureMax)}`)
  }
}

/** Text of `least` to 64 characters that the database takes. */
export function isLabel(text: string, least = 1): boolean {
  const length = [...text].length
  return length >= least && length <= labelLengthMax && !text.includes('\0') && text.isWellFormed()
}

function isFigure(value: number | null | undefined, least: number, most: number): boolean {
  if (value === null || value === undefined) return true
  return Number.isSafeInteger(value) && value >= least && value <= most
}
