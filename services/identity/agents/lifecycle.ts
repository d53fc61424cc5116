/** What happened to an agent into the outbox, as an event of the fleet: the webhook relay fires it. */

import { ulid } from 'ulid'
import { v7 as uuidv7 } from 'uuid'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { headerNames } from '#runtime/messages.ts'
import { writeOutbox } from '#runtime/outbox.ts'
import type { FleetEvent } from '#schemas/types.ts'
import { fleetEvents } from '#topics/catalog.ts'

/** Call it in the transaction that deletes the agent's row: both happen, or neither. */
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
