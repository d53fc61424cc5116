/** Ids of fleet_notes that the platform alone writes: those of audit notes, and those of the hub's notes. */

import { AppError } from '#lib/errors.ts'

const auditNotePrefix = 'audit-'
const hubNotePrefix = 'note-'
const reservedPrefixes = [auditNotePrefix, hubNotePrefix]
const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** True for an id of fleet_notes that no caller may write. */
export function isReserved(collection: string, id: string): boolean {
  return collection === 'fleet_notes' && reservedPrefixes.some((prefix) => id.startsWith(prefix))
}

/** The fault of a caller that names such an id. */
export function reservedId(): AppError {
  return new AppError(
    'reserved_id',
    `In fleet_notes ids that begin with ${reservedPrefixes.join(' or ')} are written by the platform alone.`,
  )
}

export function auditNoteId(eventId: string): string {
  return `${auditNotePrefix}${eventId}`
}

/** Milliseconds since 1970 from the id `audit-<UUIDv7>`; null for every other id, which is then no audit note. */
export function auditNoteTime(id: string): number | null {
  if (!id.startsWith(auditNotePrefix)) return null
  const uuid = id.slice(auditNotePrefix.length)
  if (!uuidV7.test(uuid)) return null
  return Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
}

/** Of a note of the hub, by its number there. */
export function hubNoteId(id: number): string {
  return `${hubNotePrefix}${id}`
}
