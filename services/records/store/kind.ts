/** What notes and goals have in common: they are rows with an author, a status and a version, listed, read and changed alike. */

import type { SqlTransaction, SqlValue } from '#engines/relational/port.ts'
import type { ChangeNotes } from '#services/access/admin-audit/admin-audit.ts'
import type { Caller } from '#services/access/callers/caller.ts'

export const priorities = ['low', 'normal', 'high', 'urgent'] as const
export type Priority = (typeof priorities)[number]

/** A kind of record: where its rows are, and which changes of its status there are. */
export interface RecordKind<S extends string = string> {
  name: 'note' | 'goal'
  table: string
  /** The columns of what it is about, in a line and at length. */
  title: string
  text: string
  /** Columns besides those that all kinds have. */
  own: readonly string[]
  /** The columns thread_id and parent_id are among its own. */
  threaded: boolean
  /** Status → those that may follow it. */
  transitions: Readonly<Record<S, readonly S[]>>
  /** Throws what else forbids these changes of the row. */
  refuse?(row: RecordRow, changes: Changes, by: Author): void
}

/** Column → new value; undefined leaves it. */
export type Changes = Readonly<Record<string, SqlValue | undefined>>

/** What every row has, whatever its kind. */
export interface RecordRow<S extends string = string> {
  id: number
  priority: Priority
  status: S
  author: string
  author_uid: string
  version: number
  created_at: Date
  updated_at: Date
}

/** Whoever makes or changes a record. */
export interface Author {
  /** As it is shown: an agent's id, or a person's uid. */
  name: string
  uid: string
  isAdmin: boolean
}

/** Notes of the platform itself. */
export const platformAuthor: Author = { name: 'flotilla', uid: 'flotilla', isAdmin: true }

export function authorOf({ agentId, uid, access }: Caller): Author {
  return { name: agentId, uid, isAdmin: access === 'admin' }
}

export function columnsOf({ title, text, own }: RecordKind): string {
  const others = 'priority, status, author, author_uid, version, created_at, updated_at'
  return ['id', title, text, ...own, others].join(', ')
}

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
