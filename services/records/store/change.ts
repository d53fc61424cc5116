/** Changes a note or goal: who may, on which version, and from which status to which, all decided under the row's lock. */

import type { Relational, SqlTransaction, SqlValue } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Author, Changes, RecordKind, RecordRow } from './kind.ts'
import { readRecord } from './read.ts'
import { type RecordHeaders, writeRecords } from './write.ts'

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
