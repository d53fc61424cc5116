/**
 * Writes points to Qdrant so that none goes back: what a point holds from a newer record stays. A point there has a UUID
 * made of its id, and carries its payload as JSON text next to its filter words.
 */

import { v5 } from 'uuid'
import { spendTurn } from '#lib/giving-way.ts'
import { newestPerId } from '../collections.ts'
import { payloadTokens, updatedAtOf } from '../filter.ts'
import type { LogPosition, Payload, PointOperation } from '../port.ts'
import { type BodyPart, type Call, pathOf } from './calls.ts'
import {
  deletedAtField,
  type PayloadValues,
  shape,
  updatedAtField,
  valuesOf,
  withoutValues,
} from './filters.ts'
import { positionFields, type QdrantRecord } from './records.ts'

/**
 * Writes points of one epoch, each unless Qdrant holds a newer one of its id; resolves when Qdrant has applied them. `name` is that
 * of the collection in Qdrant.
 */
export type SendPoints = (name: string, points: readonly QdrantPoint[], signal?: AbortSignal) => Promise<void>

/** Over REST. */
export function createSender(call: Call): SendPoints {
  return (name, points, signal) =>
    call('upsert', 'PUT', `${pathOf(name)}/points?wait=true`, upsertBody(points), signal)
}

export function createWriter(call: Call, send: SendPoints, dimension: number) {
  /** As its record was read; one that was written meanwhile has what filters look at. */
  function complete({ id, payload }: QdrantRecord) {
    const { payload: text, epoch, offset } = payload as { payload: string } & Partial<LogPosition>
    const asRead = (key: string, value: number | undefined) =>
      value === undefined ? { is_empty: { key } } : { key, match: { value } }
    const filter = { must: [{ has_id: [id] }, asRead('epoch', epoch), asRead('offset', offset)] }
    return { set_payload: { payload: filteredBy(JSON.parse(text)), filter } }
  }
  return {
    /** Gives points of an earlier release the values that filters look at. */
    async completePoints(collection: string): Promise<void> {
      const points = `${pathOf(collection)}/points`
      const asked = {
        limit: pointsPerBatch,
        with_payload: ['payload', ...positionFields],
        filter: withoutValues,
      }
      type Page = { points: QdrantRecord[]; next_page_offset?: unknown }
      for (let offset: unknown; ; ) {
        const body = { ...asked, ...(offset === undefined ? {} : { offset }) }
        const page = await call<Page>('incomplete', 'POST', `${points}/scroll`, body)
        const operations = page.points.map(complete)
        if (operations.length > 0) await call('complete', 'POST', `${points}/batch?wait=true`, { operations })
        offset = page.next_page_offset ?? undefined
        if (offset === undefined) return
      }
    },
    /** `name` is that of the collection in Qdrant: an alias, or one generation. */
    async apply(
      collection: string,
      name: string,
      operations: PointOperation[],
      signal?: AbortSignal,
    ): Promise<void> {
      const pointId = createPointIds(collection)
      const points: QdrantPoint[] = []
      for (const operation of newestPerId(operations)) {
        // Requests that have come meanwhile go first.
        const turn = spendTurn(dimension * Float32Array.BYTES_PER_ELEMENT)
        if (turn) await turn
        points.push(toQdrantPoint(operation, pointId(operation.id), dimension))
      }
      for (const sameEpoch of Map.groupBy(points, ({ payload }) => payload.epoch).values()) {
        for (const batch of inBatches(sameEpoch)) await send(name, batch, signal)
      }
    },
    async forgetDeletions(collection: string, olderThanMs: number): Promise<void> {
      // One operation of Qdrant: a point that is written meanwhile has lost the field before or is written after.
      const filter = { must: [{ key: deletedAtField, range: { lte: Date.now() - olderThanMs } }] }
      await call('forget-deletions', 'POST', `${pathOf(collection)}/points/delete?wait=true`, { filter })
    },
  }
}

/** Root of the namespaces: one per collection, so that the same id differs from collection to collection. */
const rootNamespace = 'b9c6f1d2-3a54-5e0b-9d7c-5f1a7c2e8d46'

/**
 * What a point carries in Qdrant. The payload is text: Qdrant's JSON would lose `__proto__`, large integers and the
 * difference of 1 and 1.0, and no key of the user's can collide with ours. One keyword index on the words serves
 * filters on every payload key.
 */
type StoredPayload = { id: string; epoch: number; offset: number } & (
  | {
      payload: string
      tokens: string[]
      values: PayloadValues
      shape: number
      embedder?: string
      expiresAt?: number
    }
  // The remains of a deleted point, so that no older write brings it back. Its vector replaces the former one, which Qdrant
  // keeps otherwise, and means nothing: no read sees the point. The time is in ms since 1970.
  | { deletedAt: number }
)

export function createPointIds(collection: string): (id: string) => string {
  const namespace = v5(collection, rootNamespace)
  return (id) => v5(id, namespace)
}

export interface QdrantPoint {
  id: string
  vector: Float32Array
  payload: StoredPayload
}

/** Every value has its word here: there is no such thing as too many. */
function toQdrantPoint(operation: PointOperation, pointId: string, dimension: number): QdrantPoint {
  const { id, position } = operation
  if (operation.kind === 'delete') {
    const vector = new Float32Array(dimension)
    vector[0] = 1
    return { id: pointId, vector, payload: { id, ...position, deletedAt: Date.now() } }
  }
  const { embedder, expiresAt } = operation
  return {
    id: pointId,
    vector: operation.vector,
    payload: {
      id,
      ...position,
      ...(embedder === undefined ? {} : { embedder }),
      ...(expiresAt === undefined ? {} : { expiresAt }),
      payload: JSON.stringify(operation.payload),
      ...filteredBy(operation.payload),
    },
  }
}

/** The fields of filters and orders. */
function filteredBy(payload: Payload) {
  const updatedAt = updatedAtOf(payload)
  return {
    tokens: payloadTokens(payload, Number.POSITIVE_INFINITY),
    values: valuesOf(payload),
    ...(updatedAt === undefined ? {} : { [updatedAtField]: updatedAt }),
    shape,
  }
}

/**
 * Qdrant's filter for points that hold no position, or an older one. Each has its own condition: the records of a batch are of
 * many partitions, whose offsets cannot be compared.
 */
function olderThan(points: readonly QdrantPoint[]) {
  const { epoch } = points[0]!.payload
  const own = points.map(({ id, payload: { offset } }) => {
    return { must: [{ has_id: [id] }, { key: 'offset', range: { lt: offset } }] }
  })
  return {
    should: [
      { is_empty: { key: 'offset' } },
      { key: 'epoch', range: { lt: epoch } },
      { must: [{ key: 'epoch', match: { value: epoch } }, { should: own }] },
    ],
  }
}

function upsertBody(points: readonly QdrantPoint[]): BodyPart[] {
  const parts: BodyPart[] = []
  for (const { id, payload, vector } of points) {
    const begin = parts.length === 0 ? '{"points":[' : '},'
    parts.push(`${begin}{"id":"${id}","payload":${JSON.stringify(payload)},"vector":`, vector)
  }
  return [...parts, `}],"update_filter":${JSON.stringify(olderThan(points))}}`]
}

const pointsPerBatch = 250
/** Qdrant takes 32 MiB; below is an upper estimate of a point's JSON. */
const bytesPerBatch = 24 * 2 ** 20
export const bytesPerNumber = 24
/** With what the values of the payload say of it. */
const bytesPerToken = 64

/** Cuts points into requests that Qdrant accepts, in their order. */
function inBatches(points: QdrantPoint[]): QdrantPoint[][] {
  const batches: QdrantPoint[][] = []
  let bytes = 0
  for (const point of points) {
    const { id, payload, tokens } = { payload: '', tokens: [], ...point.payload }
    const size =
      point.vector.length * bytesPerNumber +
      Buffer.byteLength(payload) * 3 +
      Buffer.byteLength(id) * 2 +
      tokens.length * bytesPerToken
    const last = batches.at(-1)
    if (last && last.length < pointsPerBatch && bytes + size <= bytesPerBatch) {
      last.push(point)
      bytes += size
    } else {
      batches.push([point])
      bytes = size
    }
  }
  return batches
}
