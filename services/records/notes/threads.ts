/** Which thread a note joins. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'

export interface Joining {
  /** A UUID. */
  thread_id?: string
  parent_id?: number
}

/**
 * The thread that the note is to join; null for a note that starts one. Notes are never deleted, so what is found stays
 * true. Throws AppError `unknown_parent`, `unknown_thread` or `thread_mismatch`.
 */
export async function threadOf(
  executor: SqlExecutor,
  { thread_id, parent_id }: Joining,
): Promise<string | null> {
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
