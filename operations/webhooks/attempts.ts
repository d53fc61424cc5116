/** The newest delivery attempts of a webhook target, and of every target the last one. */

import { Type } from 'typebox'
import { AppError, describeError } from '#lib/errors.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type { Closeable } from '#lib/resource.ts'
import type { StoredRecord } from '#runtime/messages.ts'
import { readRecords } from '#runtime/read-records.ts'
import type { WebhookAttempt } from '#schemas/types.ts'
import { createLastSeen, type LastSeen } from '#services/webhooks/relay/targets/last-seen.ts'
import { readAssignments } from '#services/webhooks/targets/assignment.ts'
import { webhooksAttempts } from '#topics/catalog.ts'
import { defineOperation, type OperatedPlatform, type OperationContext } from '../operation.ts'
import { createAttemptBars } from './attempt-bars.ts'

const topic = webhooksAttempts
export const attemptsMax = 500
/** Newest attempts of a partition, which several targets may share, that are looked through. */
const lookedThrough = 10_000
/** Of each partition, when the last attempts are followed. */
const readBackMax = 500
/** Without the newest of before it goes on with what is reported from now on. */
const readBackMsMax = 10_000

export interface AttemptView {
  target: string
  /** `success`, `retry`, `dead_letter`; `state` is a report without a call. */
  kind: string
  sequence: number | null
  attempt: number | null
  status: number | null
  fault: string | null
  took_ms: number | null
  breaker: string
  next_attempt_at: string | null
  occurred_at: string
}

export const listAttemptsOperation = defineOperation({
  name: 'webhooks attempts',
  needs: [],
  args: Type.Object({
    target: Type.String(),
    limit: Type.Integer({ minimum: 1, maximum: attemptsMax }),
  }),
  /** The newest first. */
  async run(context, { target, limit }): Promise<{ attempts: AttemptView[] }> {
    const { relational } = context.platform.engines
    const found: AttemptView[] = []
    await readAttempts(context, new Set([target]), (attempt) => {
      found.push(attempt)
      if (found.length > limit) found.shift()
    })
    if (found.length === 0 && !(await readAssignments(relational)).has(target)) {
      throw new AppError('not_found', `No webhook target ${target.slice(0, 64).toWellFormed()} is known.`)
    }
    return { attempts: found.reverse() }
  },
})

/** Visits the newest attempts of these targets, those of each in their order. */
export async function readAttempts(
  { platform, signal }: Pick<OperationContext, 'platform' | 'signal'>,
  targets: ReadonlySet<string>,
  visit: (attempt: AttemptView) => void,
): Promise<void> {
  const { physicalName, partitions } = platform.publisher.locationOf(topic)
  const asked = new Set([...targets].map((target) => partitionOf(Buffer.from(target), partitions)))
  await readRecords({
    eventLog: platform.engines.eventLog,
    topic: physicalName,
    startOf: ({ partition, start, end }) =>
      asked.has(partition) ? Math.max(start, end - lookedThrough) : end,
    signal,
    async records(records) {
      for (const record of records) {
        if (!targets.has(record.key?.toString('utf8') ?? '')) continue
        const attempt = await readable(platform, record)
        if (attempt) visit(viewOf(attempt))
      }
    },
  })
}

function viewOf(attempt: WebhookAttempt): AttemptView {
  const { target, kind, sequence, attempt: n, status, fault, took_ms, breaker } = attempt
  const next = attempt.next_attempt_at
  return {
    target,
    kind,
    sequence,
    attempt: n,
    status,
    fault,
    took_ms,
    breaker,
    next_attempt_at: next === null ? null : new Date(next).toISOString(),
    occurred_at: new Date(attempt.occurred_at).toISOString(),
  }
}

/** Null for a record that cannot be decoded. */
async function readable(
  { codec }: Pick<OperatedPlatform, 'codec'>,
  record: StoredRecord,
): Promise<WebhookAttempt | null> {
  if (record.hidden) return null
  try {
    return (await codec.decode(topic, record)).value
  } catch {
    return null
  }
}

export interface LastAttempts extends Closeable {
  /** What was reported of the target last; null before anything. */
  of(target: string): LastSeen | null
  /** Of each target the last hour; where very many were reported, only since this was opened. */
  bars: ReturnType<typeof createAttemptBars>['all']
}

/** Follows the attempts of all couriers; what it knows when this resolves includes the newest of before. */
export async function openLastAttempts(
  platform: Pick<OperatedPlatform, 'engines' | 'publisher' | 'codec' | 'log'>,
): Promise<LastAttempts> {
  const { eventLog } = platform.engines
  const { physicalName } = platform.publisher.locationOf(topic)
  const seen = createLastSeen()
  const bars = createAttemptBars()
  const followed = new Set<string>()
  /** By partition, the first offset that was followed: what is read back from there on was counted. */
  const followedFrom = new Map<number, number>()
  async function take(record: StoredRecord, live: boolean): Promise<void> {
    const { partition, offset } = record
    if (live && !followedFrom.has(partition)) followedFrom.set(partition, offset)
    const attempt = await readable(platform, record)
    if (!attempt) return
    if (live || offset < (followedFrom.get(partition) ?? Number.POSITIVE_INFINITY)) bars.take(attempt)
    // An older one that is read late says nothing new.
    if (!live && followed.has(attempt.target)) return
    if (live) followed.add(attempt.target)
    seen.take(attempt)
  }
  const tail = await eventLog.tail({
    topic: physicalName,
    from: 'end',
    records(_partition, records) {
      for (const record of records) void take(record, true)
    },
  })
  await readRecords({
    eventLog,
    topic: physicalName,
    startOf: ({ start, end }) => Math.max(start, end - readBackMax),
    signal: AbortSignal.timeout(readBackMsMax),
    async records(records) {
      for (const record of records) await take(record, false)
    },
  }).catch((error: unknown) => {
    platform.log.warn({ reason: describeError(error) }, 'webhooks.attempts-unread')
  })
  return { of: seen.last, bars: bars.all, close: () => tail.close() }
}
