/** The vault of agent keys: long-lived secrets that agents trade for tokens. Only a hash of a key is kept. */

import { hash, randomBytes } from 'node:crypto'
import { ulid } from 'ulid'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError, invalidField } from '#lib/errors.ts'
import { changeAgent, isLabel, labelLengthMax, showAgent, updateRow } from '../agents/agents.ts'

export const agentKeyPattern = /^svc_[0-9a-f]{64}$/
const agentKeyIdPattern = /^ak_[0-9a-z]{26}$/
/** Most keys of one agent that are not revoked. */
const liveKeysMax = 100
const listMax = 1_000

/** What may be shown of a key, always. */
export interface AgentKeyRecord {
  id: string
  agent_id: string
  label: string
  created_at: Date
  last_used_at: Date | null
  revoked_at: Date | null
}

export interface NewAgentKey {
  /** In any case. */
  agentId: string
  label?: string
}

/** SHA-256 in base64: the name of a key in limits and rows. */
export function hashAgentKey(key: string): string {
  return hash('sha256', key, 'base64')
}

/** Called in the transaction of a change of a key. */
type AgentKeyNote = (tx: SqlExecutor, record: AgentKeyRecord) => Promise<void>

const columns = 'k.id, a.agent_id, k.label, k.created_at, k.last_used_at, k.revoked_at'

/**
 * Makes a key for the agent: the key itself is in this answer and nowhere else. Throws AppError `not_found`,
 * `validation_failed`, or `conflict` when the agent has very many.
 */
export async function issueAgentKey(
  relational: Relational,
  { agentId, label = '' }: NewAgentKey,
  note?: AgentKeyNote,
): Promise<{ record: AgentKeyRecord; key: string }> {
  if (!isLabel(label, 0)) throw invalidField('label', `must have at most ${labelLengthMax} characters`)
  const key = `svc_${randomBytes(32).toString('hex')}`
  const record = await relational.transaction(async (tx) => {
    // Serializes concurrent issues: the second waits, and counts the first.
    const agent = await showAgent(tx, agentId, 'for update')
    const held = await tx.query<{ live: number }>(
      'select count(*) as live from platform.agent_keys where agent_uid = $1 and revoked_at is null',
      [agent.uid],
    )
    if (held.rows[0]!.live >= liveKeysMax) {
      throw new AppError('conflict', `${agent.agent_id} has ${liveKeysMax} agent keys: revoke one first.`)
    }
    const { rows } = await tx.query<AgentKeyRecord>(
      `insert into platform.agent_keys as k (id, hash, agent_uid, label) values ($1, $2, $3, $4)
       returning k.id, $5::text as agent_id, k.label, k.created_at, k.last_used_at, k.revoked_at`,
      [
        `ak_${ulid().toLowerCase()}`,
        Buffer.from(hashAgentKey(key), 'base64'),
        agent.uid,
        label,
        agent.agent_id,
      ],
    )
    const made = rows[0]!
    await note?.(tx, made)
    return made
  })
  return { record, key }
}

/** The newest first, revoked ones too; of one agent where it is named. Throws AppError `not_found` for an unknown agent. */
export async function listAgentKeys(executor: SqlExecutor, agentId?: string): Promise<AgentKeyRecord[]> {
  const uid = agentId === undefined ? null : (await showAgent(executor, agentId)).uid
  const { rows } = await executor.query<AgentKeyRecord>(
    `select ${columns} from platform.agent_keys k join platform.agents a on a.uid = k.agent_uid
     where $1::text is null or a.uid = $1 order by k.created_at desc, k.id desc limit ${listMax}`,
    [uid],
  )
  return rows
}

/**
 * Ends the key and the tokens bought with it; wait with `waitUntilPublished(relational, outboxId)` before saying that it
 * acts everywhere. A key that is revoked already stays so, and has no outbox record. Throws AppError `not_found`.
 */
export async function revokeAgentKey(
  relational: Relational,
  id: string,
  note?: AgentKeyNote,
): Promise<{ record: AgentKeyRecord; outboxId: number | null }> {
  const known = await showAgentKey(relational, id)
  if (known.revoked_at !== null) return { record: known, outboxId: null }
  const { outboxId } = await changeAgent(
    relational,
    known.agent_id,
    'agent_key_revoked',
    async (tx, agent) => {
      await tx.query(
        'update platform.agent_keys set revoked_at = now() where id = $1 and revoked_at is null',
        [id],
      )
      await tx.query(`delete from platform.refresh_tokens where uid = $1 and claims ->> 'agent_key' = $2`, [
        agent.uid,
        id,
      ])
      await note?.(tx, known)
      return updateRow(tx, agent)
    },
    { agentKeyId: id },
  )
  return { record: await showAgentKey(relational, id), outboxId }
}

/** Throws AppError `not_found`. */
async function showAgentKey(executor: SqlExecutor, id: string): Promise<AgentKeyRecord> {
  const { rows } = agentKeyIdPattern.test(id)
    ? await executor.query<AgentKeyRecord>(
        `select ${columns} from platform.agent_keys k join platform.agents a on a.uid = k.agent_uid where k.id = $1`,
        [id],
      )
    : { rows: [] }
  const record = rows[0]
  if (!record) throw new AppError('not_found', 'There is no agent key of this id.')
  return record
}
