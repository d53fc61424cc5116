/** Audit notes that are older than the retention in; tombstones for them into vectors.commands out. */

import type { VectorStore } from '#engines/vectors/port.ts'
import { sleep } from '#lib/backoff.ts'
import type { Publisher } from '#runtime/messages.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { auditIdPrefix } from './note.ts'

const pageSize = 200
/** Between two pages, so that searches and writes come first. */
const pagePauseMs = 200

export interface RetentionParts {
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
    const old = page.points.filter((point) => (auditTime(point.id) ?? Number.POSITIVE_INFINITY) < before)
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

/** Milliseconds since 1970 from the id `audit-<UUIDv7>`; null for every other id, which is then no audit note. */
export function auditTime(id: string): number | null {
  if (!id.startsWith(auditIdPrefix)) return null
  const uuid = id.slice(auditIdPrefix.length)
  if (!/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuid)) return null
  return Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
}
