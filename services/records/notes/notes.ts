/** The notes of the fleet: made by agents and people, in threads, and changed by their authors. */

import { randomUUID } from 'node:crypto'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Author, Priority, RecordKind, RecordRow } from '#services/records/store/kind.ts'
import { makeRecord, type RecordHeaders } from '#services/records/store/write.ts'

export const noteStatuses = ['active', 'resolved', 'archived'] as const
export type NoteStatus = (typeof noteStatuses)[number]

export const noteKind: RecordKind<NoteStatus> = {
  name: 'note',
  table: 'platform.notes',
  title: 'subject',
  text: 'body',
  own: ['thread_id', 'parent_id'],
  threaded: true,
  transitions: {
    active: ['resolved', 'archived'],
    resolved: ['active', 'archived'],
    archived: ['active'],
  },
}

export interface Note extends RecordRow<NoteStatus> {
  subject: string
  body: string
  thread_id: string
  parent_id: number | null
}

export interface NewNote {
  subject: string
  body: string
  priority?: Priority
  /** A UUID. */
  thread_id?: string
  parent_id?: number
  /** The same in every run of one request: the note that it made before is given again. */
  creationKey?: string
  /** Thread id of a note that starts one; also the same in every run. */
  newThreadId?: string
}

/**
 * Wake the outbox-publisher after the commit. Throws AppError `unknown_parent`, `unknown_thread` or `thread_mismatch`, and
 * then nothing was made.
 */
export async function createNote(
  executor: SqlExecutor,
  note: NewNote,
  by: Author,
  headers?: RecordHeaders,
): Promise<Note> {
  const { subject, body, priority = 'normal', parent_id = null } = note
  const threadId = (await threadOf(executor, note)) ?? note.newThreadId ?? randomUUID()
  const creationKey = note.creationKey ?? null
  const insert = {
    kind: noteKind,
    statement: `insert into platform.notes (thread_id, parent_id, subject, body, priority, status, author, author_uid, creation_key)
      values ($1, $2, $3, $4, $5, 'active', $6, $7, $8) on conflict (creation_key) do nothing`,
    params: [threadId, parent_id, subject, body, priority, by.name, by.uid, creationKey],
    agent: by.name,
    headers,
  }
  return makeRecord<Note>(executor, insert, creationKey)
}

/** Id → version; notes that are not there are absent. */
export async function readVersions(executor: SqlExecutor, ids: number[]): Promise<Map<number, number>> {
  const { rows } = await executor.query<{ id: number; version: number }>(
    'select id, version from platform.notes where id = any($1::bigint[])',
    [ids],
  )
  return new Map(rows.map(({ id, version }) => [id, version]))
}

/**
 * The thread that the note is to join; null for a note that starts one. A note that joins a thread which is removed meanwhile
 * is alone in it. Throws AppError `unknown_parent`, `unknown_thread` or `thread_mismatch`.
 */
async function threadOf(executor: SqlExecutor, { thread_id, parent_id }: NewNote): Promise<string | null> {
  const wanted = thread_id?.toLowerCase() ?? null
  if (parent_id !== undefined) {
    const parent = await find(executor, 'id = $1', parent_id)
    if (parent === undefined) throw new AppError('unknown_parent', `There is no note ${parent_id}.`)
    if (wanted === null || wanted === parent) return parent
    throw new AppError('thread_mismatch', `Note ${parent_id} is in the thread ${parent}, not in ${wanted}.`)
  }
  if (wanted === null || (await find(executor, 'thread_id = $1::uuid', wanted)) !== undefined) return wanted
  throw new AppError('unknown_thread', `There is no thread ${wanted}.`)
}

async function find(
  executor: SqlExecutor,
  condition: string,
  value: string | number,
): Promise<string | undefined> {
  const { rows } = await executor.query<{ thread_id: string }>(
    `select thread_id from platform.notes where ${condition} limit 1`,
    [value],
  )
  return rows[0]?.thread_id
}
