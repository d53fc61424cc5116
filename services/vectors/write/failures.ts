/**
 * Records that an index writer cannot write. Those that it cannot get through although each is alone in its call raise an
 * alarm, and an operator may let the writer pass them: the rows of platform.stuck_records hold both; every writer reads
 * them when an operator has marked one, once a second while there is one, and every few seconds otherwise. Those that are
 * parked fail their operation: the rows of platform.operation_failures say why.
 */

import type { Logger } from 'pino'
import { Gauge, type Registry } from 'prom-client'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { createWakeup } from '#lib/backoff.ts'
import type { ParkedMessage } from '#runtime/consume/consumer.ts'
import { hearNotices, lookRestMs, noticeOn } from '#runtime/notices.ts'
import { sharedMetric } from '#runtime/observe/metrics.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { parsePointKey } from '#topics/catalog.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { Index } from './rebuild.ts'

/** A group's records of one epoch of the topic. */
interface StuckOf {
  group: string
  epoch: number
}

export interface StuckRecord {
  partition: number
  offset: number
  key: string
  /** Why it does not get through; null for one that is only marked. */
  reason: string | null
  /** True when an operator wants it passed. */
  skip: boolean
  since: Date
}

/** A record by its place and its key. */
type RecordPlace = Pick<StuckRecord, 'partition' | 'offset' | 'key'>

/** What a record is parked with when an operator passes it. */
export const skippedReason = 'an operator passed it (flotilla groups skip)'

const someMs = 1_000
const failuresUntilAlarm = 3
const logEveryFailures = 20
/** Of the rows. */
const reasonCharactersMax = 300

export type StuckRecords = ReturnType<typeof openStuckRecords>

export function openStuckRecords(
  parts: StuckOf & {
    /** What people call the group, now. */
    shownAs: () => string
    relational: Pick<Relational, 'query' | 'listen' | 'driver'>
    log: Logger
    metrics: Registry
  },
) {
  const { relational, log, group, epoch, shownAs } = parts
  const failing = new Map<number, { offset: number; count: number }>()
  const settledThrough = new Map<number, number>()
  /** Reports that are not written yet, the last of each partition. */
  const reports = new Map<number, RecordPlace & { reason: string }>()
  let skipped = new Set<string>()
  let some = false
  const help = 'Records that the writer of an index cannot get through; flotilla groups skip passes one'
  const gauge = sharedMetric(
    parts.metrics,
    'flotilla_index_stuck_records',
    (common) => new Gauge({ ...common, help, labelNames: ['group'] }),
  )
  let shown = shownAs()

  async function follow(): Promise<void> {
    for (const [partition, report] of reports) {
      const { offset, key, reason } = report
      if (offset > (settledThrough.get(partition) ?? -1)) {
        await relational.query(
          `insert into platform.stuck_records (reader_group, epoch, partition, "offset", record_key, reason)
           values ($1, $2, $3, $4, $5, $6)
           on conflict (reader_group, epoch, partition, "offset") do update set reason = excluded.reason`,
          [group, epoch, partition, offset, textOf(key), reason],
        )
      }
      if (reports.get(partition) === report) reports.delete(partition)
    }
    const rows = await readStuck(relational, parts)
    const over = rows.filter((row) => row.offset <= (settledThrough.get(row.partition) ?? -1))
    for (const { partition, offset } of over) {
      await relational.query(
        `delete from platform.stuck_records
         where reader_group = $1 and epoch = $2 and partition = $3 and "offset" = $4`,
        [group, epoch, partition, offset],
      )
    }
    const left = rows.filter((row) => !over.includes(row))
    some = left.length > 0
    skipped = new Set(left.filter((row) => row.skip).map(placeOf))
    if (shown !== shownAs()) gauge.remove({ group: shown })
    shown = shownAs()
    gauge.set({ group: shown }, left.filter((row) => row.reason !== null).length)
  }

  const reported = createWakeup()
  const everyMs = () => (some || reports.size > 0 ? someMs : lookRestMs(relational))
  const notices = hearNotices({ relational, log }, 'flotilla_stuck_records', reported.wake)
  const following = startRepeating({ what: 'stuck records', everyMs, wakeup: reported, log }, follow)
  return {
    /** True when an operator wants this record passed: it is parked. */
    isSkipped: (partition: number, offset: number): boolean => skipped.has(placeOf({ partition, offset })),
    /** A call with this record alone found no end. After some in a row the alarm is raised. */
    failedAlone({ partition, offset, key }: RecordPlace, reason: string): void {
      const last = failing.get(partition)
      const count = last?.offset === offset ? last.count + 1 : 1
      failing.set(partition, { offset, count })
      if (count < failuresUntilAlarm) return
      if (reports.size === 0 && !some) reported.wake()
      reports.set(partition, { partition, offset, key, reason: reason.slice(0, reasonCharactersMax) })
      if ((count - failuresUntilAlarm) % logEveryFailures !== 0) return
      const pass = `flotilla groups skip ${shownAs()} --partition ${partition} --offset ${offset}`
      log.error({ group, partition, offset, key, reason, tries: count, pass }, 'index.record-stuck')
    },
    /** Everything through this offset is settled. */
    settled(partition: number, throughOffset: number): void {
      settledThrough.set(partition, throughOffset)
    },
    async close(): Promise<void> {
      await Promise.all([following.close(), notices.close()])
      gauge.remove({ group: shown })
    },
  }
}

/** Marks a record: the writer parks it when it is there. */
export async function markSkipped(
  relational: SqlExecutor,
  of: StuckOf,
  { partition, offset, key }: RecordPlace,
): Promise<void> {
  await relational.query(
    `insert into platform.stuck_records (reader_group, epoch, partition, "offset", record_key, skip)
     values ($1, $2, $3, $4, $5, true)
     on conflict (reader_group, epoch, partition, "offset") do update set skip = true
     returning ${noticeOn('flotilla_stuck_records')}`,
    [of.group, of.epoch, partition, offset, textOf(key)],
  )
}

export async function readStuck(relational: SqlExecutor, of: StuckOf): Promise<StuckRecord[]> {
  const { rows } = await relational.query<StuckRecord>(
    `select partition, "offset", record_key as key, reason, skip, since from platform.stuck_records
     where reader_group = $1 and epoch = $2 order by partition, "offset"`,
    [of.group, of.epoch],
  )
  return rows
}

/** Rows of groups that are gone. */
export async function pruneStuck(relational: Pick<Relational, 'query'>): Promise<void> {
  await relational.query(`delete from platform.stuck_records where since < now() - interval '30 days'`)
}

function placeOf({ partition, offset }: { partition: number; offset: number }): string {
  return `${partition}/${offset}`
}

/** Postgres text holds no NUL; a key that other producers made may. */
function textOf(key: string): string {
  return key.replaceAll('\0', '\ufffd')
}

/** Header of the number that all records of one request share; failure rows are kept under it. */
export const operationHeader = 'operation'

/** Writes a row for each record that belongs to an operation. Writing the same records again changes nothing. */
export async function writeFailures(
  relational: SqlExecutor,
  index: Index,
  parked: ParkedMessage<SchemaName>[],
): Promise<void> {
  const rows = parked.filter((record) => record.headers[operationHeader] !== undefined)
  if (rows.length === 0) return
  await relational.query(
    `insert into platform.operation_failures (operation, partition, "offset", point_id, error, index_name)
     select *, $6 from unnest($1::text[], $2::int[], $3::bigint[], $4::text[], $5::text[])
     on conflict do nothing`,
    [
      rows.map((row) => row.headers[operationHeader] as string),
      rows.map((row) => row.position.partition),
      rows.map((row) => row.position.offset),
      rows.map(({ message }) => message && parsePointKey(message.key)).map((key) => key && textOf(key.id)),
      rows.map((row) => row.reason.slice(0, reasonCharactersMax)),
      index.name,
    ],
  )
}

export async function pruneFailures(relational: SqlExecutor): Promise<void> {
  await relational.query(
    `delete from platform.operation_failures where created_at < now() - interval '7 days'`,
  )
}
