/** A test that failed is tried again and meets the agents and people that its first try left: they are removed first. */

import { TestRunner } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { deleteAgent } from '#services/identity/agents/agents.ts'

interface Maker {
  test: unknown
  attempt: number
}
const makers = new WeakMap<Relational, Map<string, Maker>>()

/** Whether a former try of the test that runs now made `name`. */
export function isLeftByFormerTry(relational: Relational, name: string): boolean {
  const now = maker()
  const before = makers.get(relational)?.get(name)
  if (!now || !before) return false
  return before.test === now.test && before.attempt < now.attempt
}

/** Before the test makes `name`: calls `remove` where a former try of it made that already. */
export async function makeRoom(
  relational: Relational,
  name: string,
  remove: () => Promise<unknown>,
): Promise<void> {
  if (isLeftByFormerTry(relational, name)) await remove()
  const now = maker()
  if (now) makers.set(relational, (makers.get(relational) ?? new Map()).set(name, now))
}

/** As `makeRoom`, for an agent; the former try may have deleted it. */
export function makeRoomForAgent(relational: Relational, agentId: string): Promise<void> {
  return makeRoom(relational, agentId, async () => {
    const { rows } = await relational.query('select from platform.agents where lower(agent_id) = lower($1)', [
      agentId,
    ])
    if (rows.length > 0) await deleteAgent(relational, agentId)
  })
}

function maker(): Maker | undefined {
  const test = TestRunner.getCurrentTest()
  return test && { test, attempt: test.result?.retryCount ?? 0 }
}
