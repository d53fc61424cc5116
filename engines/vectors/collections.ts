/**
 * The collections that every platform has, and what every driver does with operations on their points: checks them, compares their
 * positions, keeps one for each id.
 */

import { AppError } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import type { LogPosition, PointOperation } from './port.ts'

export const vectorDimension = 1536

export const collections = ['fleet_notes', 'posts', 'knowledgebase', 'almemsha'] as const

export type CollectionName = (typeof collections)[number]

/** HNSW parameters of the specification (M=16, ef=128), cosine metric. */
export const hnsw = { m: 16, efConstruction: 128, efSearch: 128 } as const

export function isCollection(name: string): name is CollectionName {
  return (collections as readonly string[]).includes(name)
}

/**
 * The name of a collection in record keys and engines. The four have their own names there; of any other name each making
 * has one of its own, so that nothing of a deleted collection can become part of one that is made again under its name.
 */
export function storedName(name: string, making: string | null): string {
  return making === null ? name : `${name}~${making}`
}

/** Takes a stored name apart; null when it is none. */
export function parseStoredName(stored: string): { name: string; making: string | null } | null {
  if (isCollection(stored)) return { name: stored, making: null }
  const found = /^([a-z0-9][a-z0-9_-]{0,63})~([0-9a-f]{10})$/.exec(stored)
  return found && { name: found[1]!, making: found[2]! }
}

/** The newest operation of each id. */
export function newestPerId(operations: PointOperation[]): PointOperation[] {
  const newest = new Map<string, PointOperation>()
  for (const operation of operations) {
    if (isNewer(operation.position, newest.get(operation.id)?.position)) newest.set(operation.id, operation)
  }
  return newest.size === operations.length ? operations : [...newest.values()]
}

/** True when a record at `position` takes effect on a point that holds `stored`. The same record twice does not. */
export function isNewer(position: LogPosition, stored: LogPosition | undefined): boolean {
  return stored === undefined || comparePositions(position, stored) > 0
}

export function comparePositions(a: LogPosition, b: LogPosition): number {
  return a.epoch - b.epoch || a.offset - b.offset
}

/**
 * Throws AppError `validation_failed` for a point that no engine can keep; the message says where the fault is, the
 * first operation being number `from`.
 */
export function checkOperations(operations: PointOperation[], dimension: number, from = 0): void {
  operations.forEach((operation, i) => {
    const path = `/operations/${from + i}`
    const message = faultOf(operation, dimension)
    if (message === undefined) return
    throw new AppError('validation_failed', `The vector engine refuses ${path}: ${message}.`, {
      errors: [{ path, message }],
    })
  })
}

function faultOf(operation: PointOperation, dimension: number): string | undefined {
  // A lone surrogate has no UTF-8 form: it would come back as another id.
  if (!operation.id.isWellFormed()) return 'the id is not well-formed Unicode'
  return operation.kind === 'upsert' ? vectorFault(operation.vector, dimension) : undefined
}

/** Also refuses a vector without direction, which has no cosine. */
function vectorFault(vector: Float32Array, dimension: number): string | undefined {
  if (vector.length !== dimension) return `the vector has ${vector.length} numbers instead of ${dimension}`
  let sum = 0
  for (let i = 0; i < vector.length; i++) sum += vector[i]! * vector[i]!
  if (!Number.isFinite(sum)) return 'the vector has a component that is not a finite number'
  return sum === 0 ? 'the vector is zero and has no direction' : undefined
}

const countAgeMsMax = 5_000
const countsKept = 200

/** Keeps counts for five seconds: `of` says what is counted. */
export function createRecentCounts() {
  const counts = createLru<string, number>(countsKept, { ttl: countAgeMsMax })
  return async (of: unknown, count: () => Promise<number>): Promise<number> => {
    const key = JSON.stringify(of)
    const known = counts.get(key)
    if (known !== undefined) return known
    const counted = await count()
    counts.set(key, counted)
    return counted
  }
}

/** `setting` holds the address, where it is not the usual one. */
export function vectorsUnavailable(cause?: unknown, setting?: string): AppError {
  const message = 'The vector engine does not answer; try again in a second.'
  return new AppError('vector_engine_unavailable', message, { retryAfter: 1, cause, setting })
}

/** The fault of an offset in an order that no page gave. */
export function unknownPlace(): AppError {
  const errors = [{ path: '/offset', message: 'the next_offset of a page in this order' }]
  return new AppError('validation_failed', 'The offset is of no page.', { errors })
}

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

/** The id in fleet_notes of the note of an audit event. */
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

/** Point id of a note of the hub, by its number there. */
export function hubNoteId(id: number): string {
  return `${hubNotePrefix}${id}`
}
