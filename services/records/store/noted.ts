/** What the audit of changes keeps of notes and goals. */

import type { SqlTransaction } from '#engines/relational/port.ts'
import type { ChangeNotes } from '#services/access/admin-audit/admin-audit.ts'
import type { RecordKind, RecordRow } from './kind.ts'

/** Runs in the transaction of a change; `before` is null for a new row. */
export type Written<Row> = (tx: SqlTransaction, before: Row | null, after: Row) => Promise<void>

/** How an action names a note or goal: as the key of its records. */
export function targetOf({ name }: RecordKind, id: number): string {
  return `${name}/${id}`
}

/** Notes who made or changed a row. */
export function notedBy<Row extends RecordRow>(
  kind: RecordKind,
  { note }: Pick<ChangeNotes, 'note'>,
): Written<Row> {
  return (tx, before, after) =>
    note(tx, {
      target: targetOf(kind, after.id),
      before: before && shownOf(kind, before),
      after: shownOf(kind, after),
    })
}

/** The row without its text, which may be long, and is in its record. */
function shownOf<Row extends RecordRow>({ title, own }: RecordKind, row: Row): object {
  const names = [title, ...own, 'priority', 'status', 'author', 'version']
  return Object.fromEntries(names.map((name) => [name, (row as Record<string, unknown>)[name]]))
}
