/** An agent's last operations, read back from the audit records in the log, which every gateway writes. */

import { setTimeout as pause } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { readRecords } from '#runtime/follow/read-records.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import type { AuditEvent } from '#schemas/types.ts'
import { auditEvents } from '#topics/catalog.ts'

export const recentMax = 50
/** How many records of each partition are looked at, one step after the other, until enough are found. */
const steps = [2_000, 20_000, 200_000]
const readingMax = 2
const readMs = 20_000
/** An answer is given again for this long: reading back is expensive. */
const freshMs = 2_000
const answersMax = 500

interface RecentOperation {
  operation: string
  collection: string | null
  /** `unknown` until the end is known; then ok, or a problem code. */
  outcome: string
  status_code: number | null
  took_ms: number | null
  request_id: string
  occurred_at: string
  /** Requests that the entry counts: more than one where a flood was refused. */
  count: number
}

export type RecentOperations = ReturnType<typeof createRecentOperations>

export function createRecentOperations(
  context: Pick<ServiceContext<'eventLog', unknown>, 'engines' | 'codec' | 'publisher'>,
) {
  const answers = new LRUCache<string, Promise<RecentOperation[]>>({ max: answersMax, ttl: freshMs })
  let reading = 0

  async function look(agentId: string): Promise<RecentOperation[]> {
    if (reading >= readingMax) {
      throw new AppError('overloaded', 'Operations of other agents are being read; try again in a second.', {
        retryAfter: 1,
      })
    }
    reading += 1
    const stop = new AbortController()
    try {
      return await withTimeout(readBack(agentId, stop.signal), readMs, () => {
        return new AppError('log_unavailable', 'The log is slow.', { retryAfter: 5 })
      })
    } finally {
      stop.abort()
      reading -= 1
    }
  }

  async function readBack(agentId: string, signal: AbortSignal): Promise<RecentOperation[]> {
    for (const step of steps) {
      const { records, sureFrom } = await readStep(agentId, step, signal)
      const events = await decode(records)
      const sure = events.filter((event) => event.occurred_at >= sureFrom)
      if (sure.length >= recentMax || sureFrom === 0 || step === steps.at(-1)) return shown(events)
    }
    return []
  }

  /** The agent's records among the last `step` of each partition; from `sureFrom` on (ms) none is left out. */
  async function readStep(agentId: string, step: number, signal: AbortSignal) {
    const records: StoredRecord[] = []
    const begins = new Map<number, { cut: boolean; at: number }>()
    const key = Buffer.from(agentId)
    await readRecords({
      eventLog: context.engines.eventLog,
      topic: context.publisher.locationOf(auditEvents).physicalName,
      startOf({ partition, start, end }) {
        begins.set(partition, { cut: end - step > start, at: 0 })
        return Math.max(start, end - step)
      },
      signal,
      async records(some) {
        const first = some[0]
        const begin = first && begins.get(first.partition)
        if (begin?.at === 0) begin.at = first!.timestamp
        for (const record of some) if (record.key?.equals(key)) records.push(record)
        // A long read leaves turns to the requests.
        await pause(0)
      },
    })
    const cuts = [...begins.values()].filter((begin) => begin.cut)
    return { records, sureFrom: Math.max(0, ...cuts.map((begin) => begin.at)) }
  }

  /** One event for each operation: its end where there is one. */
  async function decode(records: StoredRecord[]): Promise<AuditEvent[]> {
    const events = new Map<string, AuditEvent>()
    const newest = records.sort((a, b) => a.timestamp - b.timestamp).slice(-recentMax * 4)
    for (const record of newest) {
      const { value } = await context.codec.decode(auditEvents, record)
      if (!value || (value.phase === 'begun' && events.has(value.event_id))) continue
      events.set(value.event_id, value)
    }
    return [...events.values()]
  }

  function lookOnce(agentId: string): Promise<RecentOperation[]> {
    const known = answers.get(agentId)
    if (known) return known
    const looking = look(agentId)
    answers.set(agentId, looking)
    // A fault is not kept.
    looking.catch(() => answers.delete(agentId))
    return looking
  }

  return {
    /** The newest first, none of an earlier agent with its id. Throws AppError `overloaded`, `log_unavailable`. */
    async of({ agent_id, created_at: since }: { agent_id: string; created_at: Date }) {
      const operations = await lookOnce(agent_id)
      // The records name agents by id: earlier ones are of another agent that had it.
      return operations.filter(({ occurred_at }) => new Date(occurred_at) >= since)
    },
  }
}

function shown(events: AuditEvent[]): RecentOperation[] {
  return events
    .sort((a, b) => b.occurred_at - a.occurred_at)
    .slice(0, recentMax)
    .map(({ operation, collection, outcome, status_code, took_ms, request_id, occurred_at, count }) => ({
      ...{ operation, collection, outcome, status_code, took_ms, request_id, count },
      occurred_at: new Date(occurred_at).toISOString(),
    }))
}
