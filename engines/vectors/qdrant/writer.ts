/** Writes points to Qdrant so that none goes back: what a point holds from a newer record stays. */

import type { QdrantClient } from '@qdrant/js-client-rest'
import { pathPart } from '#lib/path-part.ts'
import { comparePositions, isNewer, newestPerId } from '../collections.ts'
import type { PointOperation } from '../port.ts'
import type { Call, VectorSender } from './calls.ts'
import {
  createPointIds,
  deletedAtField,
  inBatches,
  olderThan,
  positionFields,
  type QdrantPoint,
  storedPosition,
  toQdrantPoint,
  upsertBody,
} from './points.ts'

/** `client` must have no time limit of its own: it would take the place of the one here, and of the caller's signal. */
export function createWriter(
  client: QdrantClient,
  sender: Pick<VectorSender, 'send'>,
  call: Call,
  { dimension, limitMs }: { dimension: number; limitMs: number },
) {
  const api = client.api()

  /** One request, ended by the time limit or by the caller. */
  function request<T>(
    what: string,
    signal: AbortSignal | undefined,
    work: (init: { signal: AbortSignal }) => Promise<T>,
  ) {
    const init = () => ({
      signal: AbortSignal.any([AbortSignal.timeout(limitMs), ...(signal ? [signal] : [])]),
    })
    return call(what, () => work(init()))
  }

  /**
   * A request has one condition for all its points. That of the lowest position is right for each of them, since a
   * point that holds less than the lowest holds less than its own; points that hold something between the two are
   * left, and found by reading the positions back. They are sent again, each with its own condition.
   */
  async function writeBatch(name: string, batch: QdrantPoint[], signal?: AbortSignal): Promise<void> {
    const points = `/collections/${pathPart(name)}/points`
    const body = upsertBody(batch, olderThan(batch[0]!.payload))
    await request('upsert', signal, (init) => sender.send('PUT', `${points}?wait=true`, body, init.signal))
    if (batch.length === 1) return
    const left = await notTaken(name, batch, signal)
    if (left.length === 0) return
    const each = left.flatMap((point, n) => [
      n === 0 ? '{"operations":[{"upsert":' : '},{"upsert":',
      ...upsertBody([point], olderThan(point.payload)),
    ])
    await request('upsert-each', signal, (init) =>
      sender.send('POST', `${points}/batch?wait=true`, [...each, '}]}'], init.signal),
    )
  }
  async function notTaken(name: string, batch: QdrantPoint[], signal?: AbortSignal): Promise<QdrantPoint[]> {
    const { data } = await request('positions', signal, (init) =>
      api.getPoints(
        {
          collection_name: name,
          ids: batch.map(({ id }) => id),
          with_payload: positionFields,
          with_vector: false,
        },
        init,
      ),
    )
    const held = new Map((data.result ?? []).map((record) => [String(record.id), storedPosition(record)]))
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
      await request('forget-deletions', undefined, (init) =>
        api.deletePoints({ collection_name: collection, wait: true, filter }, init),
      )
    },
  }
}
