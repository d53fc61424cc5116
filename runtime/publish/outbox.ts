/**
 * The transactional outbox: rows that a transaction wrote are published in their order per key, and deleted then.
 *
 * One holder of a lease does so at a time. A holder that was paused may go on when its lease is over, in the middle of
 * a publish; still no older record ends up behind a newer one of its key:
 * - Each holder publishes under the lease's writer name, taken over before it reads. A late record of the earlier holder
 *   is refused in every partition where the new one has appended; elsewhere it lies before all that the new one appends.
 * - Rows are deleted only by who holds the lease, so whatever the earlier holder was publishing is still there: the new
 *   one publishes it again, in order, into the same partitions. No further fence has to be appended for that.
 */

import type { Logger } from 'pino'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError, isFenced, isUnavailable } from '#lib/errors.ts'
import type { Schemas } from '#schemas/types.ts'
import { topicByName } from '#topics/catalog.ts'
import type { KeyedTopic, SchemaName } from '#topics/topic.ts'
import { type HeldLease, withLease } from '../leases.ts'
import { noticeOn } from '../notices.ts'
import {
  type FencedPublisher,
  headerNames,
  type MessageBatch,
  type OutgoingMessage,
  type Publisher,
} from './messages.ts'
import type { RefusedKeys } from './refused-keys.ts'

/** Name of the lease, and the writer name of its holder. */
export const outboxLeaseName = 'outbox'

/** Rows of one read and one publish, and bytes of their values as text: beyond them a batch ends, with one row at least. */
const batchMax = 500
const batchBytesMax = 4 * 1024 * 1024
const leaseTtlMs = deadlines.lease.outboxMs
const publishTimeoutMs = deadlines.publish.outboxMs
/** A batch begins only when the lease outlives its publish by far: one that is fenced in the midst is work for nothing. */
const leaseLeftMsMin = 3 * publishTimeoutMs

export interface OutboxParts {
  relational: Relational
  publisher: Pick<Publisher, 'fenced'>
  log: Logger
  /** Name of this process in the lease. */
  holder: string
  refused: RefusedKeys
}

/** What the holder of the lease does. */
interface HeldOutbox {
  /** Aborts when the lease is lost. */
  readonly signal: AbortSignal
  /**
   * Publishes all rows and deletes them; resolves with their number. A row that its topic refuses stays and is logged;
   * later rows of its key alone wait for it. Throws AppError `log_unavailable` or `relational_engine_unavailable`; rows
   * that were stored before may be published again, with the same event ids.
   */
  publish(): Promise<number>
}

interface OutboxRecord {
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
     values ($1, $2, $3, $4::jsonb, $5::jsonb) returning id, ${noticeOn('flotilla_outbox')}`,
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
 * Runs `work` while holding the outbox's lease. Resolves with its result, or with undefined while another process has
 * the lease, and when another one took over meanwhile.
 */
export function withOutbox<T>(
  parts: OutboxParts,
  work: (outbox: HeldOutbox) => Promise<T>,
): Promise<T | undefined> {
  const options = { name: outboxLeaseName, holder: parts.holder, ttlMs: leaseTtlMs }
  return withLease(parts.relational, options, async (lease) => {
    const publisher = await parts.publisher.fenced(outboxLeaseName)
    try {
      return await work({
        signal: lease.signal,
        publish: () => publishAll({ ...parts, publisher, lease }),
      })
    } catch (error) {
      if (!isFenced(error)) throw error
      parts.log.info({ epoch: lease.epoch }, 'outbox.fenced')
      return undefined
    } finally {
      await publisher.close()
    }
  })
}

/** What one holder works with. */
interface Tenure extends Omit<OutboxParts, 'publisher'> {
  publisher: FencedPublisher
  lease: HeldLease
}

/** Ends early when the lease is about to run out. */
async function publishAll(tenure: Tenure): Promise<number> {
  const { lease, refused } = tenure
  // Taken once: a key whose rest ends in the midst must not go on with a later row of it.
  const held = refused.resting()
  let published = 0
  while (lease.leftMs() > leaseLeftMsMin && !lease.signal.aborted) {
    // From the first row each time: a transaction with a lower id may have committed since, and a later row of its key must
    // not be published before it.
    const rows = await readRows(tenure.relational, held)
    if (rows.length === 0) break
    const restingBefore = held.size
    const stored: OutboxRow[] = []
    for (const [topic, ofTopic] of Map.groupBy(rows, (row) => row.topic)) {
      stored.push(...(await publishTopic(tenure, topic, ofTopic, held)))
    }
    const deleted = await deleteRows(tenure, stored)
    published += deleted
    // Another one has the lease.
    if (deleted < stored.length) break
    if (held.size > restingBefore && refused.full()) break
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

async function readRows(relational: Relational, held: Set<string>): Promise<OutboxRow[]> {
  const { rows } = await relational.query<OutboxRow>(
    `select id, topic, key, event_id, value, headers, created_at from (
       select *, sum(bytes) over (order by id rows unbounded preceding) - bytes as bytes_before from (
         select *, coalesce(octet_length(value::text), 0) as bytes from platform.outbox
         where topic || ' ' || key <> all($3::text[]) order by id limit $1) as first) as measured
     where bytes_before < $2 order by id`,
    [batchMax, batchBytesMax, [...held]],
  )
  return rows
}

/** Deletes published rows, unless another instance has the lease by now: that one publishes them again. */
async function deleteRows({ relational, lease }: Tenure, rows: OutboxRow[]): Promise<number> {
  if (rows.length === 0) return 0
  const { rowCount } = await relational.query(
    `with holding as (select 1 from platform.leases where name = $2 and epoch = $3 for share)
     delete from platform.outbox where id = any($1::bigint[]) and exists (select 1 from holding)`,
    [rows.map((row) => row.id), outboxLeaseName, lease.epoch],
  )
  return rowCount
}

/** The rows that were stored. Those that cannot be encoded are left out of the batch, and later ones of their keys. */
async function publishTopic(
  tenure: Tenure,
  topic: string,
  rows: OutboxRow[],
  held: Set<string>,
): Promise<OutboxRow[]> {
  const faults: { row: OutboxRow; error: unknown }[] = []
  const taken: OutboxRow[] = []
  let batch: RowBatch | undefined
  for (const row of rows) {
    if (held.has(keyOf(row))) continue
    try {
      batch ??= openBatch(tenure.publisher, topic)
      await batch.add(messageOf(row))
      taken.push(row)
    } catch (error) {
      if (mustEnd(error)) throw error
      held.add(keyOf(row))
      faults.push({ row, error })
    }
  }
  reportRefused(tenure, topic, faults)
  if (!batch || taken.length === 0) return []
  try {
    await batch.publish({ timeoutMs: publishTimeoutMs })
  } catch (error) {
    if (mustEnd(error)) throw error
    return publishHalves(tenure, topic, taken, held, error)
  }
  for (const row of taken) tenure.refused.published(keyOf(row))
  return taken
}

/** The log refused one record or more of the rows: halved until those are alone. */
async function publishHalves(
  tenure: Tenure,
  topic: string,
  rows: OutboxRow[],
  held: Set<string>,
  error: unknown,
): Promise<OutboxRow[]> {
  const [row] = rows
  if (row && rows.length === 1) {
    held.add(keyOf(row))
    reportRefused(tenure, topic, [{ row, error }])
    return []
  }
  const middle = Math.ceil(rows.length / 2)
  const first = await publishTopic(tenure, topic, rows.slice(0, middle), held)
  return [...first, ...(await publishTopic(tenure, topic, rows.slice(middle), held))]
}

/** One line for all of them; a key that is refused again rests longer, so the lines become rare. */
function reportRefused(
  { refused, log }: Tenure,
  topic: string,
  faults: { row: OutboxRow; error: unknown }[],
): void {
  const rests = faults.map(({ row }) => refused.refused(keyOf(row)))
  const [first] = faults
  if (!first) return
  log.error(
    {
      topic,
      outbox: first.row.id,
      reason: describeError(first.error),
      rows: faults.length,
      againInMs: Math.min(...rests),
    },
    'outbox.row-refused',
  )
}

/** True for faults that no row is to blame for. */
function mustEnd(error: unknown): boolean {
  return (
    isUnavailable(error) || isFenced(error) || (error instanceof AppError && error.code === 'shutting_down')
  )
}

type RowBatch = MessageBatch<string, Schemas[SchemaName]>

function openBatch(publisher: FencedPublisher, name: string): RowBatch {
  const topic = topicByName(name)
  if (!topic) throw new Error(`${name} is not a topic of the catalogue`)
  // Rows carry the record's key itself, not the typed key that a topic makes it from.
  const byRecordKey: KeyedTopic<string> = { ...topic, key: (key) => key }
  return publisher.batch(byRecordKey)
}

function messageOf(row: OutboxRow): OutgoingMessage<string, Schemas[SchemaName]> {
  return {
    key: row.key,
    value: row.value as Schemas[SchemaName] | null,
    eventId: row.event_id,
    headers: { [headerNames.occurredAt]: row.created_at.toISOString(), ...row.headers },
  }
}

/** As `readRows` makes it: names of topics have no space. */
function keyOf(row: OutboxRow): string {
  return `${row.topic} ${row.key}`
}
