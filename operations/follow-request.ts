/**
 * Follows one request by its id: what was called, what it changed, which records it left in the log, and what became of each
 * of them.
 */

import { Type } from 'typebox'
import type { PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import { headerNames } from '#runtime/messages.ts'
import { readRecords } from '#runtime/read-records.ts'
import { type ListedAction, listActionsOf } from '#services/identity/admin-audit/admin-audit.ts'
import { catalog } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import { type GroupLag, readLag } from './lag.ts'
import { defineOperation, type OperatedPlatform, type OperationContext } from './operation.ts'
import { recordLetters } from './record-letters.ts'

/** Records that are read at most, the newest of each partition. */
export const recordsMax = 20_000
const windowMs = 60_000
const callsMax = 50
const uuidV7 = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i

/** Topics of what the platform says about itself, in which no request is. */
const silent = ['vectors.progress', 'webhooks.attempts']

export interface FollowedRecord {
  topic: string
  partition: number
  offset: number
  timestamp: string
  key: string | null
  agent: string | null
  /** What each group of readers made of it; topics that are read by every instance have none. */
  groups: { group: string; state: 'handled' | 'waiting' | 'dead_letter' }[]
}

export interface FollowedRequest {
  request_id: string
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
  /** How the log was searched. */
  searched: {
    /** Around this time; null: the time of the request is not known, so the newest records were read. */
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
  async run(context: OperationContext, { id }): Promise<FollowedRequest> {
    const { platform } = context
    const calls = await callsOf(platform, id)
    const aroundMs = timeOf(id, calls)
    const [changes, found] = await Promise.all([
      aroundMs === null ? [] : listActionsOf(platform.engines.relational, id, windowOf(aroundMs)),
      recordsOf(context, id, aroundMs),
    ])
    return {
      request_id: id,
      calls,
      changes,
      records: await withOutcomes(context, found.records),
      searched: {
        around: aroundMs === null ? null : new Date(aroundMs).toISOString(),
        records: found.read,
        complete: found.complete,
      },
    }
  },
})

type Call = FollowedRequest['calls'][number]

/** From the audit notes, which the audit-writer makes a moment later. */
async function callsOf({ engines }: OperatedPlatform, id: string): Promise<Call[]> {
  const filter = { must: [{ key: 'request_id', match: { value: id } }] }
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

/** Ids that the platform makes hold their time; others are known by their calls. */
function timeOf(id: string, [call]: readonly Call[]): number | null {
  const [, high = '', low = ''] = uuidV7.exec(id) ?? []
  if (high !== '') return Number.parseInt(high + low, 16)
  const time = call ? Date.parse(call.occurred_at) : Number.NaN
  return Number.isNaN(time) ? null : time
}

function windowOf(aroundMs: number): { from: Date; to: Date } {
  return { from: new Date(aroundMs - windowMs), to: new Date(aroundMs + windowMs) }
}

interface Found {
  records: { topic: Topic; record: StoredRecord }[]
  read: number
  complete: boolean
}

async function recordsOf(
  { platform, signal }: OperationContext,
  id: string,
  aroundMs: number | null,
): Promise<Found> {
  const { eventLog } = platform.engines
  const topics = await Promise.all(
    catalog
      .filter(({ name }) => !silent.includes(name))
      .map(async (topic) => {
        const { physicalName } = platform.publisher.locationOf(topic)
        return { topic, physicalName, ranges: await eventLog.offsets(physicalName) }
      }),
  )
  const most = shareOf(topics.flatMap(({ ranges }) => ranges.map(({ start, end }) => end - start)))
  const found: Found = { records: [], read: 0, complete: true }
  await Promise.all(
    topics
      .filter(({ ranges }) => ranges.some(({ start, end }) => end > start))
      .map(async ({ topic, physicalName }) => {
        const oldest = new Map<number, number>()
        const startOf = ({ start, end }: PartitionRange) => Math.max(start, end - most)
        const ranges = await readRecords({
          eventLog,
          topic: physicalName,
          startOf,
          signal,
          records(records) {
            for (const record of records) {
              if (!oldest.has(record.partition)) oldest.set(record.partition, record.timestamp)
              found.read += 1
              if (record.headers[headerNames.requestId] === id) found.records.push({ topic, record })
            }
          },
        })
        const fromMs = aroundMs === null ? 0 : aroundMs - windowMs
        const isCut = ({ partition, start, end }: PartitionRange) =>
          end - start > most && (oldest.get(partition) ?? 0) > fromMs
        if (ranges.some(isCut)) found.complete = false
      }),
  )
  found.records.sort((a, b) => a.record.timestamp - b.record.timestamp)
  return found
}

/** How many records of each partition may be read, so that all together are at most `recordsMax`. */
export function shareOf(sizes: readonly number[], total = recordsMax): number {
  let left = total
  const sorted = [...sizes].sort((a, b) => a - b)
  for (const [at, size] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - at))
    if (size > share) return share
    left -= size
  }
  return total
}

async function withOutcomes(context: OperationContext, found: Found['records']): Promise<FollowedRecord[]> {
  if (found.length === 0) return []
  const { engines, locations } = context.platform
  const lags = await readLag({ eventLog: engines.eventLog, relational: engines.relational, locations })
  const { dead_letters: letters } = await recordLetters.list.run({ ...context, output: none }, {})
  const parked = new Set(
    letters.map(({ topic, group, partition, offset }) => `${topic} ${group} ${partition} ${offset}`),
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
      .map((lag) => ({
        group: lag.group,
        state: parked.has(`${topic.name} ${lag.group_id} ${partition} ${offset}`)
          ? ('dead_letter' as const)
          : isPassed(lag, partition, offset)
            ? ('handled' as const)
            : ('waiting' as const),
      })),
  }))
}

const none = { item() {}, progress() {} }

function isPassed({ partitions }: GroupLag, partition: number, offset: number): boolean {
  const own = partitions.find((one) => one.partition === partition)
  return own !== undefined && (own.committed ?? 0) > offset
}
