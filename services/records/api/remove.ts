/**
 * Removes the notes and goals of authors for good. hub.records promises no null values: the last record of a note is an archived
 * one, so that its point goes, and that of an open goal a canceled one.
 */

import type { SqlTransaction } from '#engines/relational/port.ts'
import { goalKind } from '../goals/goals.ts'
import { noteKind } from '../notes/notes.ts'
import type { RecordKind } from '../store/kind.ts'
import { writeRecords } from '../store/write.ts'

/** Threads that an author started go with all replies; else a reply would be left that replies to nothing. */
const notesOf = `author_uid = any($1::text[]) or thread_id in (
  select n.thread_id from platform.notes n where n.author_uid = any($1::text[])
    and not exists (select from platform.notes o where o.thread_id = n.thread_id and o.id < n.id))`
const goalsOf = 'author_uid = any($1::text[])'

/** `uids` are those of the authors, `by` is who removes them. Wake the outbox-publisher after the commit. */
export async function removeRecords(
  tx: SqlTransaction,
  uids: readonly string[],
  by: string,
): Promise<{ notes: number; goals: number }> {
  const notes = { kind: noteKind, which: notesOf, last: 'archived', open: "status <> 'archived'" }
  const goals = { kind: goalKind, which: goalsOf, last: 'canceled', open: "status in ('pending', 'active')" }
  return { notes: await removeKind(tx, notes, uids, by), goals: await removeKind(tx, goals, uids, by) }
}

interface Removal {
  kind: RecordKind
  /** SQL: the rows of the authors $1. */
  which: string
  /** The status of the last record, and SQL for rows that have another one still. */
  last: string
  open: string
}

async function removeKind(
  tx: SqlTransaction,
  { kind, which, last, open }: Removal,
  uids: readonly string[],
  by: string,
): Promise<number> {
  const { rows } = await tx.query<{ id: number }>(
    `select id from ${kind.table} where ${which} order by id for update`,
    [[...uids]],
  )
  const ids = rows.map(({ id }) => id)
  if (ids.length === 0) return 0
  await writeRecords(tx, {
    kind,
    statement: `update ${kind.table} set status = $2, version = version + 1,
      updated_at = greatest(clock_timestamp(), updated_at) where id = any($1::bigint[]) and ${open}`,
    params: [ids, last],
    agent: by,
  })
  await tx.query(`delete from ${kind.table} where id = any($1::bigint[])`, [ids])
  return ids.length
}
