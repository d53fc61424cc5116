/** Reads points and their log positions, deleted and expired ones included. */

import type { ExpiredPoint, HeldPoint, LogPosition, Point } from '../port.ts'
import { type Call, pathOf } from './calls.ts'
import { deletedAtField, hasExpired } from './filters.ts'
import {
  fromQdrantRecord,
  isShown,
  payloadFields,
  positionFields,
  type QdrantRecord,
  storedPosition,
} from './records.ts'
import { createPointIds } from './writer.ts'

/** Points with their vectors take 30 KB of JSON each, and more with large payloads. */
const pointsAtOnce = 64

export function createHeldReader(call: Call) {
  return {
    /** `name` is that of the collection in Qdrant: an alias, or one generation. */
    async held(collection: string, name: string, ids: string[]): Promise<HeldPoint[]> {
      const pointId = createPointIds(collection)
      const found: HeldPoint[] = []
      for (let from = 0; from < ids.length; from += pointsAtOnce) {
        const wanted = ids.slice(from, from + pointsAtOnce).map(pointId)
        const records = await call<QdrantRecord[]>('held', 'POST', `${pathOf(name)}/points`, {
          ids: wanted,
          with_payload: [...payloadFields(true), deletedAtField, ...positionFields],
          with_vector: true,
        })
        const byId = new Map(records.map((record) => [record.id, record]))
        found.push(...wanted.flatMap((id) => byId.get(id) ?? []).map(toHeldPoint))
      }
      return found
    },
    async expired(collection: string, limit: number): Promise<ExpiredPoint[]> {
      // A later operation replaces the field, and a deletion leaves none.
      const { points } = await call<{ points: QdrantRecord[] }>(
        'expired',
        'POST',
        `${pathOf(collection)}/points/scroll`,
        {
          limit,
          with_payload: ['id', ...positionFields],
          with_vector: false,
          filter: { must: [hasExpired()] },
        },
      )
      return points.map(({ payload }) => {
        const { id, epoch, offset } = payload as { id: string } & LogPosition
        return { id, position: { epoch, offset } }
      })
    },
  }
}

function toHeldPoint(record: QdrantRecord): HeldPoint {
  const position = storedPosition(record)
  const point = fromQdrantRecord(record)
  return {
    id: point.id,
    ...(position === undefined ? {} : { position }),
    ...(isShown(record) ? { point: point as Point } : {}),
  }
}
