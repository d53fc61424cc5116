/**
 * Follows one id: what was called, what it changed, which records it left in the log, and what became of each of them:
 * handled, runs that ended, deliveries that were answered.
 */

import { Type } from 'typebox'
import { headerNames } from '#runtime/publish/messages.ts'
import { type ListedAction, listActionsOf } from '#services/access/admin-audit/admin-audit.ts'
import { listRuns } from '#services/runs/state/read.ts'
import type { Run } from '#services/runs/state/types.ts'
import { deadLetterParts } from '../dead-letters/letters.ts'
import { listRecordLetters } from '../dead-letters/records.ts'
import { type GroupLag, readLag } from '../lag.ts'
import { defineOperation, type OperatedPlatform, type OperationContext } from '../operation.ts'
import { deliveriesOf, type FollowedDelivery } from './follow-deliveries.ts'
import { type Found, findRecords, windowMs } from './follow-records.ts'
import { type Subject, type SubjectKind, subjectOf } from './subject.ts'

const callsMax = 50
const runsMax = 50
/** The oldest records that are shown. */
const recordsShownMax = 500

interface FollowedRecord {
  topic: string
  partition: number
  offset: number
  timestamp: string
  key: string | null
  agent: string | null
  /** What each group of readers made of it; topics that are read by every instance have none. */
  groups: { group: string; state: 'handled' | 'waiting' | 'dead_letter'; reason: string | null }[]
}

interface FollowedRun {
  run_id: string
  agent: string
  status: string
  trigger: string
  /** The code of why it failed. */
  error: string | null
  created_at: string
  ended_at: string | null
}

export interface Followed {
  id: string
  /** What the id names. */
  kind: SubjectKind
  /** X-Request-Id of the call that began it; null: not known. */
  request_id: string | null
  /** Calls of the vector gateway. */
  calls: {
    agent: string | null
    operation: string
    collection: string | null
    outcome: string
    status_code: number | null
    took_ms: number | null
    occurred_at: string
  }[]
  changes: ListedAction[]
  records: FollowedRecord[]
  /** All that were found; the first of them are in `records`. */
  records_found: number
  runs: FollowedRun[]
  dispatch: { goal_id: number; status: string } | null
  deliveries: FollowedDelivery[]
  /** How the log was searched. */
  searched: {
    /** Around this time; null: it is not known, so the newest records were read. */
    around: string | null
    records: number
    /** False: older records of that time were not read. */
    complete: boolean
  }
}

/** Throws AppError `log_unavailable`, `relational_engine_unavailable`, `vector_engine_unavailable`. */
export const followRequestOperation = defineOperation({
  name: 'follow-request',
  needs: ['vectors'],
  args: Type.Object({ id: Type.String() }),
  async run(context: OperationContext, { id }): Promise<Followed> {
    const { platform } = context
    const { subject, calls, found } = await search(context, id)
    const { requestId, aroundMs, dispatch } = subject
    const [changes, runs, deliveries, records] = await Promise.all([
      aroundMs === null || requestId === null
        ? []
        : listActionsOf(platform.engines.relational, requestId, windowOf(aroundMs)),
      runsOf(platform, subject),
      deliveriesOf(context, subject, found.records),
      withOutcomes(context, found.records.slice(0, recordsShownMax)),
    ])
    return {
      id,
      kind: subject.kind,
      request_id: requestId,
      calls,
      changes,
      records,
      records_found: found.records.length,
      runs: runs.map(followedRun),
      dispatch: dispatch && { goal_id: dispatch.goalId, status: dispatch.status },
      deliveries,
      searched: {
        around: aroundMs === null ? null : new Date(aroundMs).toISOString(),
        records: found.read,
        complete: found.complete,
      },
    }
  },
})

interface Searched {
  subject: Subject
  calls: Call[]
  found: Found
}

/** An event or a delivery names its request only in its record: then the log is searched once more for the rest of it. */
async function search(context: OperationContext, id: string): Promise<Searched> {
  const subject = await subjectOf(context.platform, id)
  const first = await searchFor(context, id, subject)
  const { kind, records } = first.found
  const record = records[0]?.record
  if (subject.kind !== 'request' || kind === null || kind === 'request' || !record) return first
  const requestId = record.headers[headerNames.requestId] ?? null
  const known = { ...subject, kind, requestId, aroundMs: record.timestamp }
  if (requestId === null) return { ...first, subject: known }
  const second = await searchFor(context, id, known)
  return { ...second, found: { ...second.found, read: first.found.read + second.found.read } }
}

async function searchFor(context: OperationContext, id: string, given: Subject): Promise<Searched> {
  const calls = given.requestId === null ? [] : await callsOf(context.platform, given.requestId)
  const subject = { ...given, aroundMs: given.aroundMs ?? timeOfCall(calls) }
  return { subject, calls, found: await findRecords(context, id, subject) }
}

type Call = Followed['calls'][number]

/** From the audit notes, which the audit-writer makes a moment later. */
async function callsOf({ engines }: OperatedPlatform, requestId: string): Promise<Call[]> {
  const filter = { must: [{ key: 'request_id', match: { value: requestId } }] }
  const { points } = await engines.vectors.scroll('fleet_notes', {
    limit: callsMax,
    filter,
    withPayload: true,
  })
  return points
    .map(({ payload = {} }) => ({
      agent: Array.isArray(payload.tags) ? textOf(payload.tags[2]) : null,
      operation: textOf(payload.operation) ?? 'unknown',
      collection: textOf(payload.collection),
      outcome: textOf(payload.outcome) ?? 'unknown',
      status_code: numberOf(payload.status_code),
      took_ms: numberOf(payload.took_ms),
      occurred_at: textOf(payload.updated_at) ?? '',
    }))
    .sort((a, b) => (a.occurred_at < b.occurred_at ? -1 : 1))
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : null)
const numberOf = (value: unknown) => (typeof value === 'number' ? value : null)

/** Ids that callers made hold no time: their calls say when they were. */
function timeOfCall([call]: readonly Call[]): number | null {
  const time = call ? Date.parse(call.occurred_at) : Number.NaN
  return Number.isNaN(time) ? null : time
}

function windowOf(aroundMs: number): { from: Date; to: Date } {
  return { from: new Date(aroundMs - windowMs), to: new Date(aroundMs + windowMs) }
}

/** Those that are known already, or that the request accepted; the oldest first. */
async function runsOf(platform: OperatedPlatform, { runs, requestId }: Subject): Promise<Run[]> {
  if (runs.length > 0 || requestId === null) return runs
  const page = await listRuns(platform.engines.relational, { own: null, requestId, limit: runsMax })
  return page.runs.reverse()
}

function followedRun({ runId, agent, status, trigger, error, createdAt, endedAt }: Run): FollowedRun {
  return {
    run_id: runId,
    agent,
    status,
    trigger,
    error: error?.code ?? null,
    created_at: createdAt.toISOString(),
    ended_at: endedAt?.toISOString() ?? null,
  }
}

async function withOutcomes(context: OperationContext, found: Found['records']): Promise<FollowedRecord[]> {
  if (found.length === 0) return []
  const { engines, locations } = context.platform
  const lags = await readLag({ eventLog: engines.eventLog, relational: engines.relational, locations })
  const letters = await listRecordLetters(deadLetterParts(context.platform), {})
  const parked = new Map(
    letters.map(({ topic, group, partition, offset, reason }) => [
      `${topic} ${group} ${partition} ${offset}`,
      reason,
    ]),
  )
  return found.map(({ topic, record: { partition, offset, timestamp, key, headers } }) => ({
    topic: topic.name,
    partition,
    offset,
    timestamp: new Date(timestamp).toISOString(),
    key: key?.toString('utf8').slice(0, 1_024) ?? null,
    agent: headers[headerNames.agent] ?? null,
    groups: lags
      .filter((lag) => lag.topic === topic.name)
      .map((lag) => {
        const reason = parked.get(`${topic.name} ${lag.group_id} ${partition} ${offset}`) ?? null
        const passed = isPassed(lag, partition, offset) ? ('handled' as const) : ('waiting' as const)
        return { group: lag.group, state: reason === null ? passed : ('dead_letter' as const), reason }
      }),
  }))
}

function isPassed({ partitions }: GroupLag, partition: number, offset: number): boolean {
  const own = partitions.find((one) => one.partition === partition)
  return own !== undefined && (own.committed ?? 0) > offset
}
