/** Writes points to Qdrant so that none goes back: what a point holds from a newer record stays. */

import { comparePositions, isNewer, newestPerId } from '../collections.ts'
import type { PointOperation } from '../port.ts'
import { type Call, pathOf } from './calls.ts'
import {
  createPointIds,
  deletedAtField,
  inBatches,
  olderThan,
  positionFields,
  type QdrantPoint,
  type QdrantRecord,
  storedPosition,
  toQdrantPoint,
  upsertBody,
} from './points.ts'

export function createWriter(call: Call, dimension: number) {
  /**
   * A request has one condition for all its points. That of the lowest position is right for each of them, since a
   * point that holds less than the lowest holds less than its own; points that hold something between the two are
   * left, and found by reading the positions back. They are sent again, each with its own condition.
   */
  async function writeBatch(name: string, batch: QdrantPoint[], signal?: AbortSignal): Promise<void> {
    const points = `${pathOf(name)}/points`
    const body = upsertBody(batch, olderThan(batch[0]!.payload))
    await call('upsert', 'PUT', `${points}?wait=true`, body, signal)
    if (batch.length === 1) return
    const left = await notTaken(name, batch, signal)
    if (left.length === 0) return
    const each = left.flatMap((point, n) => [
      n === 0 ? '{"operations":[{"upsert":' : '},{"upsert":',
      ...upsertBody([point], olderThan(point.payload)),
    ])
    await call('upsert-each', 'POST', `${points}/batch?wait=true`, [...each, '}]}'], signal)
  }
  async function notTaken(name: string, batch: QdrantPoint[], signal?: AbortSignal): Promise<QdrantPoint[]> {
    const asked = { ids: batch.map(({ id }) => id), with_payload: positionFields, with_vector: false }
    const records = await call<QdrantRecord[]>('positions', 'POST', `${pathOf(name)}/points`, asked, signal)
    const held = new Map(records.map((record) => [record.id, storedPosition(record)]))
    return batch.filter(({ id, payload }) => isNewer(payload, held.get(id)))
  }
  return {
    /** `name` is that of the collection in Qdrant: an alias, or one generation. */
    async apply(
      collection: string,
      name: string,
      operations: PointOperation[],
      signal?: AbortSignal,
    ): Promise<void> {
      const pointId = createPointIds(collection)
      const points = newestPerId(operations)
        .toSorted((a, b) => comparePositions(a.position, b.position))
        .map((operation) => toQdrantPoint(operation, pointId(operation.id), dimension))
      for (const batch of inBatches(points)) await writeBatch(name, batch, signal)
    },
    async forgetDeletions(collection: string, olderThanMs: number): Promise<void> {
      // One operation of Qdrant: a point that is written meanwhile has lost the field before or is written after.
      const filter = { must: [{ key: deletedAtField, range: { lte: Date.now() - olderThanMs } }] }
      await call('forget-deletions', 'POST', `${pathOf(collection)}/points/delete?wait=true`, { filter })
    },
  }
}
