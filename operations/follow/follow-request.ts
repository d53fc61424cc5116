/**
 * Follows one id: what was called, what it changed, which records it left in the log, and what became of each of them:
 * handled, runs that ended, deliveries that were answered.
 */

import { type Static, Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import { listActionsOf } from '#services/access/admin-audit/admin-audit.ts'
import { listRuns } from '#services/runs/state/read.ts'
import type { Run } from '#services/runs/state/types.ts'
import { defineAction } from '../action.ts'
import { notedChange } from '../audit.ts'
import { deadLetterParts } from '../dead-letters/letters.ts'
import { listRecordLetters } from '../dead-letters/records.ts'
import { type GroupLag, readLag } from '../lag.ts'
import type { OperatedPlatform, OperationContext } from '../operation.ts'
import { orNull, time } from '../shapes.ts'
import {
  deliveriesOf,
  type Found,
  findRecords,
  followedDelivery,
  recordsMax,
  windowMs,
} from './follow-records.ts'
import { type Subject, subjectOf } from './subject.ts'

const callsMax = 50
const runsMax = 50
/** The oldest records that are shown. */
const recordsShownMax = 500

const followed = Type.Object(
  {
    id: Type.String(),
    kind: Type.Enum(['request', 'operation', 'run', 'dispatch', 'delivery', 'event'], {
      type: 'string',
      description: 'What the id names; `request` also where nothing has it.',
    }),
    request_id: orNull(Type.String(), 'X-Request-Id of the call that began it; null: not known.'),
    calls: Type.Array(
      Type.Object({
        agent: orNull(Type.String()),
        operation: Type.String(),
        collection: orNull(Type.String()),
        outcome: Type.String(),
        status_code: orNull(Type.Integer()),
        took_ms: orNull(Type.Number()),
        occurred_at: Type.String(),
      }),
      { description: 'Of the vector gateway, from their audit notes, which come a moment later.' },
    ),
    changes: Type.Array(notedChange, { description: 'What it changed of the platform.' }),
    records: Type.Array(
      Type.Object({
        topic: Type.String(),
        partition: Type.Integer(),
        offset: Type.Integer(),
        timestamp: time,
        key: orNull(Type.String()),
        agent: orNull(Type.String()),
        groups: Type.Array(
          Type.Object({
            group: Type.String(),
            state: Type.Enum(['handled', 'waiting', 'dead_letter'], { type: 'string' }),
            reason: orNull(Type.String(), 'Why it is a dead letter.'),
          }),
          { description: 'What each group of readers made of it.' },
        ),
      }),
      { description: 'In the log, the oldest first.' },
    ),
    records_found: Type.Integer({ description: 'All of them; of many only the first are in `records`.' }),
    runs: Type.Array(
      Type.Object({
        run_id: Type.String(),
        agent: Type.String(),
        status: Type.String(),
        trigger: Type.String(),
        error: orNull(Type.String(), 'The code of why it failed.'),
        created_at: time,
        ended_at: orNull(time),
      }),
      { description: 'That it started; of a run all that joined it.' },
    ),
    dispatch: orNull(Type.Object({ goal_id: Type.Integer(), status: Type.String() })),
    deliveries: Type.Array(followedDelivery, {
      description: 'To webhook targets, and how the couriers fared with them.',
    }),
    searched: Type.Object({
      around: orNull(
        time,
        'When the request was, as far as its id or its calls say; null: not known. Changes are looked for a minute before and after.',
      ),
      records: Type.Integer({ description: 'Records of the log that were read.' }),
      complete: Type.Boolean({
        description: `False: there were more than ${recordsMax} records, and those of that time may not be among the newest.`,
      }),
    }),
  },
  { title: 'FollowedRequest' },
)

type Followed = Static<typeof followed>

/** Each reads much of the log. */
const atOnceMax = 2
let running = 0

export const followRequestAction = defineAction({
  name: 'follow-request',
  summary: 'One request, operation, run, dispatch or delivery, followed through HTTP, log, worker and effect',
  needs: ['vectors'],
  args: Type.Object({
    id: Type.String({
      pattern: '^[\\x21-\\x7e]{1,16000}$',
      rule: '1 to 16,000 visible ASCII characters',
      description:
        'X-Request-Id of an answer, an operation_id, a run id, the number of a dispatch (its goal), `<target>/<X-Sequence>`, webhook-id or X-Idempotency-Key of a delivery, or the event id of a record.',
      examples: ['01932b3f-7b1c-7c3a-9d51-0f2f6f0f9a11'],
    }),
  }),
  async run(context, { id }) {
    if (running >= atOnceMax) {
      throw new AppError('overloaded', 'Others are followed already; try again in a few seconds.', {
        retryAfter: 5,
      })
    }
    running += 1
    try {
      return await follow(context, id)
    } finally {
      running -= 1
    }
  },
  http: {
    role: 'admin',
    problems: ['log_unavailable', 'relational_engine_unavailable', 'vector_engine_unavailable'],
    method: 'GET',
    path: '/requests/:id',
    operationId: 'followRequest',
    tag: 'audit',
    description: `Reads at most ${recordsMax} records, the newest of each partition. An id that nothing has is no fault: its lists are empty.`,
    answer: followed,
  },
})

/** Throws AppError `log_unavailable`, `relational_engine_unavailable`, `vector_engine_unavailable`. */
async function follow(context: OperationContext, id: string): Promise<Followed> {
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
}

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
  const query = { limit: callsMax, filter, withPayload: true }
  const { points } = await engines.vectors.scroll('fleet_notes', query)
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

function followedRun({
  runId,
  agent,
  status,
  trigger,
  error,
  createdAt,
  endedAt,
}: Run): Followed['runs'][number] {
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

async function withOutcomes(
  context: OperationContext,
  found: Found['records'],
): Promise<Followed['records']> {
  if (found.length === 0) return []
  const lags = await readLag(context.platform)
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
