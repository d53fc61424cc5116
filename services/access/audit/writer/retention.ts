/**
 * Deletes audit notes that are older than the retention, by tombstones in vectors.commands. They need no fence: one that
 * comes late, from an instance that was paused, names a note by its id, which holds the note's time. It can delete
 * nothing but what was to be deleted, because no newer note ever has that id.
 */

import type { VectorStore } from '#engines/vectors/port.ts'
import { sleep } from '#lib/backoff.ts'
import type { Publisher } from '#runtime/publish/messages.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { auditNoteTime } from '../note-ids.ts'

const pageSize = 200
/** Between two pages, so that searches and writes come first. */
const pagePauseMs = 200

interface RetentionParts {
  vectors: Pick<VectorStore, 'scroll'>
  publisher: Pick<Publisher, 'publish'>
  retentionDays: number
  now?(): number
  signal: AbortSignal
}

/** Goes once through all audit notes, page by page. Resolves with how many were deleted; other notes are never touched. */
export async function pruneAuditNotes(parts: RetentionParts): Promise<number> {
  const before = (parts.now?.() ?? Date.now()) - parts.retentionDays * 86_400_000
  const filter = { must: [{ key: 'tags', match: { value: 'auth' } }] }
  let deleted = 0
  let offset: string | undefined
  while (!parts.signal.aborted) {
    const page = await parts.vectors.scroll('fleet_notes', {
      limit: pageSize,
      filter,
      withPayload: false,
      ...(offset === undefined ? {} : { offset }),
    })
    const old = page.points.filter((point) => (auditNoteTime(point.id) ?? Number.POSITIVE_INFINITY) < before)
    await parts.publisher.publish(
      vectorsCommands,
      old.map((point) => ({ key: { collection: 'fleet_notes', id: point.id }, value: null })),
    )
    deleted += old.length
    if (page.next === null) break
    offset = page.next
    await sleep(pagePauseMs, parts.signal)
  }
  return deleted
}
