/** The transactional outbox: rows that a transaction wrote are published in their order per key, and deleted then. */

import type { Logger } from 'pino'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Schemas } from '#schemas/types.ts'
import { topicByName } from '#topics/catalog.ts'
import type { KeyedTopic, SchemaName } from '#topics/topic.ts'
import { type HeldLease, withLease } from './leases.ts'
import { headerNames, type Publisher } from './messages.ts'

export const outboxLeaseName = 'outbox'

/** Rows of one read and one publish. */
const batchMax = 500
const leaseTtlMs = deadlines.lease.outboxMs
const publishTimeoutMs = deadlines.publish.outboxMs
/**
 * A batch begins only when the lease outlives its publish by far: a late one could overtake that of the next holder.
 */
const leaseLeftMsMin = 3 * publishTimeoutMs

export interface OutboxParts {
  relational: Relational
  publisher: Publisher
  log: Logger
  /** Name of this process in the lease. */
  holder: string
}

export interface OutboxRecord {
  topic: string
  /** The record's key as text. */
  key: string
  eventId: string
  /** As the topic's schema says, in JSON; null is a tombstone. */
  value: unknown
  headers?: Record<string, string>
}

/**
 * Writes a row in the caller's transaction and returns its id. The row of the changed thing must be locked before:
 * only then is the order of ids the order of commits for its key.
 */
export async function writeOutbox(tx: SqlExecutor, record: OutboxRecord): Promise<number> {
  const { rows } = await tx.query<{ id: number }>(
    `insert into platform.outbox (topic, key, event_id, value, headers)
     values ($1, $2, $3, $4::jsonb, $5::jsonb) returning id`,
    [
      record.topic,
      record.key,
      record.eventId,
      record.value === null ? null : JSON.stringify(record.value),
      JSON.stringify(record.headers ?? {}),
    ],
  )
  return rows[0]!.id
}

/**
 * Publishes all rows and deletes them; resolves with their number, or null (nothing done) while another process does
 * so. A row that its topic refuses stays, holds back later rows of its key alone, and is logged. Throws AppError
 * `log_unavailable` or `relational_engine_unavailable`; rows that were stored before may be published again, with the
 * same event ids.
 */
export async function publishOutbox(parts: OutboxParts): Promise<number | null> {
  const options = { name: outboxLeaseName, holder: parts.holder, ttlMs: leaseTtlMs }
  const published = await withLease(parts.relational, options, (lease) => publishUnderLease(parts, lease))
  return published ?? null
}

/** As `publishOutbox`, for a caller that holds the lease; ends early when the lease is about to run out. */
export async function publishUnderLease(
  parts: Omit<OutboxParts, 'holder'>,
  lease: HeldLease,
): Promise<number> {
  const stuck = new Set<string>()
  let published = 0
  let after = 0
  while (lease.leftMs() > leaseLeftMsMin && !lease.signal.aborted) {
    const rows = await readRows(parts.relational, after)
    const last = rows.at(-1)
    if (!last) break
    after = last.id
    published += await publishRows(parts, rows, stuck)
  }
  return published
}

interface OutboxRow {
  id: number
  topic: string
  key: string
  event_id: string
  value: unknown
  headers: Record<string, string>
  created_at: Date
}

async function readRows(relational: Relational, after: number): Promise<OutboxRow[]> {
  const { rows } = await relational.query<OutboxRow>(
    `select id, topic, key, event_id, value, headers, created_at from platform.outbox
     where id > $1 order by id limit $2`,
    [after, batchMax],
  )
  return rows
}

async function publishRows(
  parts: Omit<OutboxParts, 'holder'>,
  rows: OutboxRow[],
  stuck: Set<string>,
): Promise<number> {
  let published = 0
  for (const [topic, ofTopic] of Map.groupBy(rows, (row) => row.topic)) {
    const ids = await publishTopic(parts, topic, ofTopic, stuck)
    if (ids.length === 0) continue
    await parts.relational.query('delete from platform.outbox where id = any($1::bigint[])', [ids])
    published += ids.length
  }
  return published
}

/** The ids that were stored. One row that cannot be encoded refuses the whole publish: then each goes alone. */
async function publishTopic(
  parts: Omit<OutboxParts, 'holder'>,
  topic: string,
  rows: OutboxRow[],
  stuck: Set<string>,
): Promise<number[]> {
  const free = rows.filter((row) => !stuck.has(keyOf(row)))
  if (free.length === 0) return []
  try {
    await publish(parts.publisher, topic, free)
    return free.map((row) => row.id)
  } catch (error) {
    if (error instanceof AppError) throw error
    if (free.length > 1) {
      const ids: number[] = []
      for (const row of free) ids.push(...(await publishTopic(parts, topic, [row], stuck)))
      return ids
    }
    const row = free[0]!
    stuck.add(keyOf(row))
    parts.log.error({ outbox: row.id, topic, reason: describeError(error) }, 'outbox.row-refused')
    return []
  }
}

async function publish(publisher: Publisher, name: string, rows: OutboxRow[]): Promise<void> {
  const topic = topicByName(name)
  if (!topic) throw new Error(`${name} is not a topic of the catalogue`)
  // Rows carry the record's key itself, not the typed key that a topic makes it from.
  const byRecordKey: KeyedTopic<string> = { ...topic, key: (key) => key }
  await publisher.publish(
    byRecordKey,
    rows.map((row) => ({
      key: row.key,
      value: row.value as Schemas[SchemaName] | null,
      eventId: row.event_id,
      headers: { [headerNames.occurredAt]: row.created_at.toISOString(), ...row.headers },
    })),
    { timeoutMs: publishTimeoutMs },
  )
}

function keyOf(row: OutboxRow): string {
  return `${row.topic}\0${row.key}`
}
