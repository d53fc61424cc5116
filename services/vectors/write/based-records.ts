/**
 * Records that were made from what a point held when it was read: a changed payload, the deletion of a point that has expired. Each is
 * a whole point, or its deletion, and names the position that it was made from. Whoever reads the log takes it as it is. The
 * writer of the vector engine alone compares: where the point was written in between, it makes the change on the
 * newer point, and publishes the outcome as a correction behind it, so that the last record of a point is always what the
 * point holds. A correction is itself made from a position, and corrected in turn.
 */

import { comparePositions, isNewer, parseStoredName } from '#engines/vectors/collections.ts'
import type { HeldPoint, LogPosition, Point, PointOperation } from '#engines/vectors/port.ts'
import type { OutgoingMessage } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import type { HeaderName } from '#topics/promises.ts'
import { changedPayload, type PayloadChange } from '../accept/payload-change.ts'

/** `basis` is `<epoch>/<offset>` of the record that left the point as it was read; `payload-change` is JSON. */
const [basisHeader, changeHeader, correctionHeader] = [
  'basis',
  'payload-change',
  'correction',
] as const satisfies HeaderName[]

export interface Basis {
  position: LogPosition
  change: PayloadChange | undefined
  isCorrection: boolean
}

type Headers = Record<string, string>

export function basisHeaders(
  { epoch, offset }: LogPosition,
  given: { change?: PayloadChange; isCorrection?: boolean } = {},
): Headers {
  return {
    [basisHeader]: `${epoch}/${offset}`,
    ...(given.change ? { [changeHeader]: JSON.stringify(given.change) } : {}),
    ...(given.isCorrection ? { [correctionHeader]: '1' } : {}),
  }
}

/** Undefined for a record that takes effect whatever the point holds, and for headers that say nothing. */
export function basisOf(headers: Readonly<Record<string, string>>): Basis | undefined {
  const found = /^(\d{1,9})\/(\d{1,16})$/.exec(headers[basisHeader] ?? '')
  if (!found) return undefined
  return {
    position: { epoch: Number(found[1]), offset: Number(found[2]) },
    change: changeOf(headers[changeHeader]),
    isCorrection: headers[correctionHeader] !== undefined,
  }
}

function changeOf(text: string | undefined): PayloadChange | undefined {
  if (text === undefined) return undefined
  try {
    return JSON.parse(text) as PayloadChange
  } catch {
    return undefined
  }
}

/** What a record comes to. */
export interface Settled {
  /** Absent where nothing is to be written: it is settled already, or refused. */
  operation?: PointOperation
  /** Why it is refused: the point stays as it is. */
  fault?: string
  /** What the log must say behind it, where the record says something else. */
  correction?: { value: Omit<VectorUpsert, 'making'> | null; headers: Headers }
}

/** `operation` is the record as it is; `held` what the engine holds of its point. */
export function settle(operation: PointOperation, basis: Basis, held: HeldPoint | undefined): Settled {
  const at = operation.position
  const current = held?.position
  if (current && !isNewer(at, current)) return {}
  // Nothing is known of the point where the log was compacted: the record is whole. In a log that was copied a correction lies
  // behind what it corrects, with the same records in between.
  const isCopied = basis.isCorrection && basis.position.epoch < at.epoch
  const isAsRead = !current || isCopied || comparePositions(current, basis.position) <= 0
  const point = held?.point
  if (!basis.change || !point) return isAsRead ? { operation } : stays(operation, point)
  const changed = changedPayload(point.payload, basis.change)
  if ('fault' in changed) {
    if (isAsRead) return { fault: changed.fault }
    const { correction } = stays({ ...operation, position: current }, point)
    return { fault: changed.fault, ...(correction ? { correction } : {}) }
  }
  if (isAsRead) return { operation }
  return becomes(operation, { ...point, payload: JSON.parse(changed.json) as Point['payload'] })
}

/** The point stays as it is, at a new position; also one that is not there. */
function stays(operation: PointOperation, point: Point | undefined): Settled {
  return becomes(operation, point ?? null)
}

function becomes(record: PointOperation, point: Point | null): Settled {
  const { id, position } = record
  const operation: PointOperation = point
    ? { ...point, id, position, kind: 'upsert' }
    : { id, position, kind: 'delete' }
  if (isSame(record, operation)) return { operation }
  return { operation, correction: correctionOf(operation) }
}

function correctionOf(operation: PointOperation): NonNullable<Settled['correction']> {
  const headers = basisHeaders(operation.position, { isCorrection: true })
  if (operation.kind === 'delete') return { value: null, headers }
  return { value: recordValue(operation), headers }
}

/** The point as a record holds it. */
export function recordValue(point: Omit<Point, 'id'>): Omit<VectorUpsert, 'making'> {
  const { vector, payload, embedder, expiresAt } = point
  return {
    vector: Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength),
    payload: JSON.stringify(payload),
    embedder: embedder ?? null,
    expires_at: expiresAt ?? null,
  }
}

function isSame(a: PointOperation, b: PointOperation): boolean {
  if (a.kind === 'delete' || b.kind === 'delete') return a.kind === b.kind
  return (
    a.embedder === b.embedder &&
    a.expiresAt === b.expiresAt &&
    JSON.stringify(a.payload) === JSON.stringify(b.payload) &&
    cosineOf(a.vector, b.vector) > sameFrom
  )
}

/** An engine may give a vector back up to a positive factor, and round it. */
const sameFrom = 1 - 1e-6

function cosineOf(a: Float32Array, b: Float32Array): number {
  let [product, squaresA, squaresB] = [0, 0, 0]
  for (let n = 0; n < a.length; n++) {
    product += a[n]! * b[n]!
    squaresA += a[n]! * a[n]!
    squaresB += b[n]! * b[n]!
  }
  return product / Math.sqrt(squaresA * squaresB)
}

/** `collection` is a stored name. */
export function correctionRecord(
  collection: string,
  id: string,
  { value, headers }: NonNullable<Settled['correction']>,
): OutgoingMessage<{ collection: string; id: string }, VectorUpsert> {
  const making = parseStoredName(collection)?.making ?? null
  return { key: { collection, id }, value: value && { ...value, making }, headers }
}
