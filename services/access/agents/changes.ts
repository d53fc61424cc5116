/** Writes changes of agents into the outbox, and waits until one has reached every gateway. */

import { ulid } from 'ulid'
import { v7 as uuidv7 } from 'uuid'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import { writeOutbox } from '#runtime/publish/outbox.ts'
import type { AgentChange, FleetEvent } from '#schemas/types.ts'
import { agentsChanges, fleetEvents } from '#topics/catalog.ts'

export type AgentChangeKind = AgentChange['change']
/** The agent's row as it is after its change. */
type ChangedAgent = Omit<AgentChange, 'change' | 'occurred_at' | 'agent_key_id'> &
  Record<'created_at' | 'updated_at', Date>

/** Caches count for at most this long after the log acknowledged a change that their tail has not read. */
const cachesStaleMsMax = 1_000
const pollMs = 25

/** Writes the change's outbox row and returns its id. Call it in the transaction that holds the agent's row. */
export function writeAgentChange(
  tx: SqlExecutor,
  { created_at: _, updated_at: __, ...agent }: ChangedAgent,
  change: AgentChangeKind,
  agentKeyId: string | null = null,
): Promise<number> {
  const value: AgentChange = { ...agent, change, occurred_at: Date.now(), agent_key_id: agentKeyId }
  return writeOutbox(tx, {
    topic: agentsChanges.name,
    key: agentsChanges.key(agent.agent_id),
    eventId: uuidv7(),
    value,
    headers: { [headerNames.agent]: agent.agent_id },
  })
}

/**
 * Writes the event of the fleet that the webhook relay fires. Call it in the transaction that deletes the agent's row:
 * both happen, or neither.
 */
export async function writeAgentTerminated(tx: SqlExecutor, agentId: string): Promise<void> {
  const value: FleetEvent = {
    event: 'agent.terminated',
    agent: agentId,
    // There is no task: an id of this occurrence, so that a later one of the same name is no repeat of it.
    task_id: ulid(),
    result: JSON.stringify({ reason: 'deleted' }),
    ts: Math.floor(Date.now() / 1_000),
  }
  await writeOutbox(tx, {
    topic: fleetEvents.name,
    key: fleetEvents.key(agentId),
    eventId: uuidv7(),
    value,
    headers: { [headerNames.agent]: agentId },
  })
}

/**
 * Resolves one second after the change was acknowledged by the log: by then no gateway trusts what it cached before.
 * Throws AppError `log_unavailable` when it was not published in time; the change itself is kept and will be.
 */
export async function waitUntilPublished(
  relational: Relational,
  outboxId: number,
  timeoutMs = 15_000,
): Promise<void> {
  const end = performance.now() + timeoutMs
  for (;;) {
    const { rowCount } = await relational.query('select 1 from platform.outbox where id = $1', [outboxId])
    if (rowCount === 0) break
    if (performance.now() > end) {
      throw new AppError(
        'log_unavailable',
        'The change is stored, but not every gateway knows it yet: the log does not take its record.',
      )
    }
    await sleep(pollMs)
  }
  await sleep(cachesStaleMsMax)
}
