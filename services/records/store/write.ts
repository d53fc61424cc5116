/**
 * Writes the records of hub.records: the row and its outbox row in one statement. The row is locked, or new, before the
 * outbox row's id is drawn, so the order of ids is the order of commits for each note and goal. Who may change a row, on which
 * version, and from which status to which is decided under its lock.
 */

import type { Relational, SqlExecutor, SqlTransaction, SqlValue } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { newEventId } from '#lib/ids.ts'
import { noticeOn } from '#runtime/notices.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import { hubRecords } from '#topics/catalog.ts'
import { type Author, type Changes, columnsOf, type RecordKind, type RecordRow } from './kind.ts'
import { readRecord } from './read.ts'

/** Request id and traceparent, where a request made the change. */
export type RecordHeaders = Record<string, string>

interface Statement {
  kind: RecordKind
  /** An insert or update of the kind's table, without `returning`. */
  statement: string
  params: SqlValue[]
  /** Who did it. */
  agent: string
  headers?: RecordHeaders | undefined
}

/** The rows that the statement changed. Whoever calls it wakes the outbox-publisher after the commit. */
export async function writeRecords<Row>(
  executor: SqlExecutor,
  { kind, statement, params, agent, headers }: Statement,
): Promise<Row[]> {
  const [eventId, given] = [`$${params.length + 1}`, `$${params.length + 2}`]
  const { rows } = await executor.query<Row>(
    `with written as (${statement} returning ${columnsOf(kind)}),
     sent as (${outboxInsert(kind, { from: 'written', eventId, headers: given })})
     select * from written`,
    [...params, newEventId(), JSON.stringify({ ...headers, [headerNames.agent]: agent })],
  )
  return rows
}

/** The record that an insert makes; where it was made before under the same creation key, that one. */
export async function makeRecord<Row>(
  executor: SqlExecutor,
  insert: Statement,
  creationKey: string | null,
): Promise<Row> {
  const [made] = await writeRecords<Row>(executor, insert)
  if (made) return made
  const { rows } = await executor.query<Row>(
    `select ${columnsOf(insert.kind)} from ${insert.kind.table} where creation_key = $1`,
    [creationKey],
  )
  return rows[0]!
}

const pageRows = 200

/**
 * Publishes all notes or goals once more, as they are now, for readers that have to begin again. Each row is locked before its outbox row is written, so no older state of it comes behind a newer one. Resolves with the
 * number of rows; `written` hears how far it is.
 */
export async function rewriteRecords(
  relational: Relational,
  kind: RecordKind,
  { signal, written }: { signal: AbortSignal; written(rows: number): void },
): Promise<number> {
  let total = 0
  let after = 0
  while (!signal.aborted) {
    const page = await relational.transaction((tx) =>
      tx.query<{ last: number | null; rows: number }>(
        `with locked as materialized (
           select * from ${kind.table} where id > $1 order by id limit ${pageRows} for no key update),
         sent as (${outboxInsert(kind, { from: 'locked order by id', eventId: 'gen_random_uuid()::text', headers: "'{}'" })})
         select max(id) as last, count(*) as rows, ${noticeOn('flotilla_outbox')} from locked`,
        [after],
      ),
    )
    const { last, rows } = page.rows[0]!
    if (last === null) break
    after = last
    total += rows
    written(total)
  }
  return total
}

/** An insert that writes the newest state of the rows of `from` into the outbox; `eventId` and `headers` are SQL. */
function outboxInsert(
  kind: RecordKind,
  { from, eventId, headers }: { from: string; eventId: string; headers: string },
): string {
  const fields = {
    kind: `'${kind.name}'`,
    id: 'id',
    version: 'version',
    author: 'author',
    title: kind.title,
    text: kind.text,
    priority: 'priority',
    status: 'status',
    thread_id: kind.threaded ? 'thread_id' : 'null',
    parent_id: kind.threaded ? 'parent_id' : 'null',
    created_at: milliseconds('created_at'),
    updated_at: milliseconds('updated_at'),
  }
  const value = Object.entries(fields).map(([name, sql]) => `'${name}', ${sql}`)
  return `insert into platform.outbox (topic, key, event_id, value, headers)
    select '${hubRecords.name}', '${kind.name}/' || id, ${eventId}, jsonb_build_object(${value.join(', ')}), ${headers}::jsonb
    from ${from}`
}

/** As JavaScript's Date counts them: fractions of a millisecond are cut off. */
function milliseconds(column: string): string {
  return `floor(extract(epoch from ${column}) * 1000)::bigint`
}

export interface ChangeRequest<Row> {
  id: number
  changes: Changes
  by: Author
  /** Whether the request's If-Match names this version. */
  isVersion?(version: number): boolean
  headers?: RecordHeaders | undefined
  /** Runs in the transaction of the change, with the row before and after it. */
  written?(tx: SqlTransaction, before: Row, after: Row): Promise<void>
}

/**
 * The row after the change; one that changes nothing keeps its version and publishes nothing. Throws AppError `not_found`,
 * `forbidden`, `precondition_failed` or `invalid_transition`.
 */
export function changeRecord<Row extends RecordRow>(
  relational: Relational,
  kind: RecordKind,
  request: ChangeRequest<Row>,
): Promise<Row> {
  return relational.transaction((tx) => changeWithin<Row>(tx, kind, request))
}

/** As `changeRecord`, as a part of the caller's transaction. */
export async function changeWithin<Row extends RecordRow>(
  tx: SqlTransaction,
  kind: RecordKind,
  request: ChangeRequest<Row>,
): Promise<Row> {
  const row = await readRecord<Row>(tx, kind, request.id, 'for no key update')
  refuse(kind, row, request)
  const changed = changedColumns(row, request.changes)
  if (changed.length === 0) return row
  const set = changed.map(([column], n) => `${column} = $${n + 2}`)
  const rows = await writeRecords<Row>(tx, {
    kind,
    statement: `update ${kind.table} set ${set.join(', ')}, version = version + 1,
      updated_at = greatest(clock_timestamp(), updated_at) where id = $1`,
    params: [request.id, ...changed.map(([, value]) => value)],
    agent: request.by.name,
    headers: request.headers,
  })
  const after = rows[0]!
  await request.written?.(tx, row, after)
  return after
}

function refuse<Row extends RecordRow>(kind: RecordKind, row: Row, request: ChangeRequest<Row>): void {
  const { by, changes, isVersion } = request
  if (!by.isAdmin && by.uid !== row.author_uid) {
    throw new AppError('forbidden', `Only the author of this ${kind.name} and admins may change it.`)
  }
  if (isVersion && !isVersion(row.version)) {
    throw new AppError('precondition_failed', `The ${kind.name} has version ${row.version} by now.`)
  }
  kind.refuse?.(row, changes, by)
  if (changes.status !== undefined) refuseTransition(kind, row.status, String(changes.status))
}

/** The same status again is no fault. */
function refuseTransition({ name, transitions }: RecordKind, from: string, to: string): void {
  const allowed = transitions[from] ?? []
  if (from === to || allowed.includes(to)) return
  const others = allowed.length === 0 ? 'nothing' : allowed.join(' or ')
  throw new AppError('invalid_transition', `The ${name} is ${from}: ${others} may follow, not ${to}.`)
}

function changedColumns(row: object, changes: Changes): [column: string, value: SqlValue][] {
  return Object.entries(changes).filter(
    (change): change is [string, SqlValue] =>
      change[1] !== undefined && change[1] !== (row as Record<string, unknown>)[change[0]],
  )
}
