/**
 * Records that were made from what a point held when it was read: a changed payload, the deletion of a point that has expired. Each is
 * a whole point, or its deletion, and names the position that it was made from. Whoever reads the log takes it as it is. The
 * writer of the vector engine alone compares: where the point was written in between, it makes the change on the
 * newer point, and publishes the outcome as a correction behind it, so that the last record of a point is always what the
 * point holds. A correction is itself made from a position, and corrected in turn.
 */

import { comparePositions, isNewer, parseStoredName } from '#engines/vectors/collections.ts'
import type { HeldPoint, LogPosition, Point, PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, park, unavailable } from '#lib/outcome.ts'
import type { OutgoingMessage, Publisher } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import type { HeaderName } from '#topics/promises.ts'
import { changedPayload, type PayloadChange } from '../accept/payload-change.ts'
import type { Pending } from './generation-writer.ts'

/** `basis` is `<epoch>/<offset>` of the record that left the point as it was read; `payload-change` is JSON in base64url: tools print
 * headers with commas between them. */
const [basisHeader, changeHeader, correctionHeader] = [
  'basis',
  'payload-change',
  'correction',
] as const satisfies HeaderName[]

interface Basis {
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
    ...(given.change
      ? { [changeHeader]: Buffer.from(JSON.stringify(given.change)).toString('base64url') }
      : {}),
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
    return JSON.parse(Buffer.from(text, 'base64url').toString()) as PayloadChange
  } catch {
    return undefined
  }
}

/** What a record comes to. */
interface Settled {
  /** Absent where nothing is to be written: it is settled already, or refused. */
  operation?: PointOperation
  /** Why it is refused: the point stays as it is. */
  fault?: string
  /** What the log must say behind it, where the record says something else. */
  correction?: { value: Omit<VectorUpsert, 'making'> | null; headers: Headers }
}

/** `operation` is the record as it is; `held` what the engine holds of its point. */
function settle(operation: PointOperation, basis: Basis, held: HeldPoint | undefined): Settled {
  const at = operation.position
  const current = held?.position
  if (current && !isNewer(at, current)) return {}
  // Nothing is known of the point where the log was compacted: the record is whole. In a log that was copied a correction lies
  // behind what it corrects, with the same records in between.
  const isCopied = basis.isCorrection && basis.position.epoch < at.epoch
  const isAsRead = !current || isCopied || comparePositions(current, basis.position) <= 0
  const point = held?.point
  if (!basis.change || !point) return isAsRead ? { operation } : becomes(operation, point)
  const changed = changedPayload(point.payload, basis.change)
  if ('fault' in changed) {
    if (isAsRead) return { fault: changed.fault }
    const { correction } = becomes({ ...operation, position: current }, point)
    return { fault: changed.fault, ...(correction ? { correction } : {}) }
  }
  if (isAsRead) return { operation }
  return becomes(operation, { ...point, payload: JSON.parse(changed.json) as Point['payload'] })
}

/** The point, or none, is written again at the position of the record: it stays as it is, or has the change. */
function becomes(record: PointOperation, point: Point | undefined): Settled {
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
function correctionRecord(
  collection: string,
  id: string,
  { value, headers }: NonNullable<Settled['correction']>,
): OutgoingMessage<{ collection: string; id: string }, VectorUpsert> {
  const making = parseStoredName(collection)?.making ?? null
  return { key: { collection, id }, value: value && { ...value, making }, headers }
}

/** A record of the batch. */
export type Read = Pending<PointOperation> & { timestamp: number; basis: Basis | undefined }

export type BasedParts = ReturnType<typeof createBased>

/** A rebuild reads old records again, whose corrections lie in the log. Those of younger ones may be missing. */
const youngMs = 600_000

export function createBased(
  vectors: Pick<VectorStore, 'held' | 'liveGeneration'>,
  publisher: Pick<Publisher, 'publish'>,
  generation: number,
) {
  return {
    held: (collection: string, ids: string[]): Promise<HeldPoint[]> =>
      vectors.held(collection, ids, { generation }),
    /** Throws AppError `log_unavailable` or `vector_engine_unavailable`. */
    async correct(collection: string, settled: { read: Read; settled: Settled }[]): Promise<void> {
      const youngest = Math.max(...settled.map(({ read }) => read.timestamp))
      if (youngest < Date.now() - youngMs && (await vectors.liveGeneration()) !== generation) return
      const records = settled.flatMap(({ read, settled: { correction } }) =>
        correction ? [correctionRecord(collection, read.operation.id, correction)] : [],
      )
      await publisher.publish(vectorsCommands, records)
    },
  }
}

/**
 * `write` writes operations in one go, the last of each point, and resolves with the outcome of those that are not written.
 * Corrections are published before what they correct is written, so that a kill in between loses none.
 */
export async function writeInOrder(
  based: BasedParts,
  collection: string,
  group: Read[],
  write: (part: Pending<PointOperation>[]) => Promise<BatchOutcome | null>,
  outcomes: BatchOutcome[],
): Promise<void> {
  if (group.every(({ basis }) => !basis)) return void (await write(group))
  let from = 0
  for (const part of inParts(group)) {
    const refused = await writePart(part).catch(outcomeOfAway)
    from += part.length
    if (!refused) continue
    for (const { index } of group.slice(from - (refused.whole ? part.length : 0)))
      outcomes[index] = refused.outcome
    return
  }

  async function writePart(part: Read[]) {
    const ids = part.flatMap(({ basis, operation }) => (basis ? [operation.id] : []))
    const held = new Map((await based.held(collection, ids)).map((one) => [one.id, one]))
    const settled = part.map((read) => {
      const { operation, basis } = read
      return { read, settled: basis ? settle(operation, basis, held.get(operation.id)) : { operation } }
    })
    if (settled.some((one) => one.settled.correction)) await based.correct(collection, settled)
    const pending: Pending<PointOperation>[] = []
    for (const {
      read,
      settled: { operation, fault },
    } of settled) {
      if (fault !== undefined)
        outcomes[read.index] = park(`point ${read.operation.id.slice(0, 100)}: ${fault}`)
      else if (operation) pending.push({ ...read, operation })
    }
    const outcome = pending.length === 0 ? null : await write(pending)
    return outcome && { outcome, whole: false }
  }
}

/** Within a part no record depends on another one. */
function inParts(group: Read[]): Read[][] {
  const parts: Read[][] = [[]]
  let ids = new Set<string>()
  for (const read of group) {
    if (read.basis && ids.has(read.operation.id)) {
      parts.push([])
      ids = new Set()
    }
    parts.at(-1)!.push(read)
    ids.add(read.operation.id)
  }
  return parts
}

function outcomeOfAway(error: unknown): { outcome: BatchOutcome; whole: true } {
  if (!isUnavailable(error)) throw error
  const engine = error instanceof AppError && error.code === 'log_unavailable' ? 'log' : 'vectors'
  return { outcome: unavailable(engine, error.message), whole: true }
}
