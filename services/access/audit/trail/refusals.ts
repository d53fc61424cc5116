/** Counts refused requests and writes one summary a minute for each agent: a flood must not become a flood of notes. */

import { v7 as uuidv7 } from 'uuid'
import type { AuditEvent } from '#schemas/types.ts'

/** The name under which all callers are counted that are no agent of the platform; no agent id can look like this. */
const unknownAgents = '(unknown)'
const summaryEveryMs = 60_000
/** Agents that are counted apart within a minute; refusals of further ones are counted together. */
const agentsMax = 1_000
const several = 'several'

interface Tally {
  count: number
  operation: string
  outcome: string
  statusCode: number | null
}

export function createRefusals(write: (event: AuditEvent) => void, now: () => number) {
  let tallies = new Map<string, Tally>()
  function flush(): void {
    const due = tallies
    tallies = new Map()
    for (const [agentId, tally] of due) write(summaryOf(agentId, tally, now()))
  }
  const timer = setInterval(flush, summaryEveryMs)
  timer.unref()
  return {
    count(agentId: string | null, operation: string, outcome: string, statusCode: number): void {
      const known = agentId !== null && (tallies.has(agentId) || tallies.size < agentsMax)
      const name = known ? (agentId as string) : unknownAgents
      const tally = tallies.get(name)
      if (!tally) {
        tallies.set(name, { count: 1, operation, outcome, statusCode })
        return
      }
      tally.count += 1
      if (tally.operation !== operation) tally.operation = several
      if (tally.outcome !== outcome) tally.outcome = several
      if (tally.statusCode !== statusCode) tally.statusCode = null
    },
    /** Writes the summaries of the minute that has begun. */
    close(): void {
      clearInterval(timer)
      flush()
    },
  }
}

function summaryOf(agentId: string, tally: Tally, occurredAt: number): AuditEvent {
  const eventId = uuidv7()
  return {
    event_id: eventId,
    phase: 'summary',
    agent_id: agentId,
    operation: tally.operation,
    collection: null,
    outcome: tally.outcome,
    status_code: tally.statusCode,
    took_ms: null,
    request_id: eventId,
    count: tally.count,
    occurred_at: occurredAt,
  }
}
