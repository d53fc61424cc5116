/**
 * Pages by `updated_at`. Qdrant orders by a number and has no place among equal ones, so points of one time are read by their ids;
 * those without a time come last.
 */

import { unknownPlace } from '../collections.ts'
import { updatedAtField } from './filters.ts'
import type { QdrantRecord } from './records.ts'

/** Reads points by their ids, from one on (inclusive), or by time. */
type ReadPoints = (query: {
  must: object[]
  limit: number
  offset?: string
  order_by?: { key: string; direction: 'asc' | 'desc' }
}) => Promise<QdrantRecord[]>

type Place =
  /** At points beyond a time, or at the first of all. */
  | { kind: 'beyond'; at?: number }
  /** Among the points of one time, at an id. */
  | { kind: 'at'; at: number; id?: string }
  /** Among the points without a time. */
  | { kind: 'rest'; id?: string }

/** Up to `limit` points from `offset` on. */
export async function readOrdered(
  read: ReadPoints,
  direction: 'asc' | 'desc',
  offset: string | undefined,
  limit: number,
): Promise<QdrantRecord[]> {
  const found: QdrantRecord[] = []
  for (let place: Place | undefined = readPlace(offset); place && found.length < limit; ) {
    const [points, next]: [QdrantRecord[], Place | undefined] = await readFrom(
      read,
      direction,
      place,
      limit - found.length,
    )
    found.push(...points)
    place = next
  }
  return found
}

/** Some points, and where the others are. */
async function readFrom(
  read: ReadPoints,
  direction: 'asc' | 'desc',
  place: Place,
  limit: number,
): Promise<[QdrantRecord[], Place | undefined]> {
  if (place.kind !== 'beyond') {
    const { kind, id } = place
    const must =
      kind === 'at'
        ? { key: updatedAtField, match: { value: place.at } }
        : { is_empty: { key: updatedAtField } }
    const points = await read({ must: [must], limit, ...(id === undefined ? {} : { offset: id }) })
    return [points, kind === 'at' ? { kind: 'beyond', at: place.at } : undefined]
  }
  const beyond = direction === 'asc' ? 'gt' : 'lt'
  const must = place.at === undefined ? [] : [{ key: updatedAtField, range: { [beyond]: place.at } }]
  const points = await read({ must, limit, order_by: { key: updatedAtField, direction } })
  if (points.length < limit) return [inOrder(points, direction), { kind: 'rest' }]
  // Some of the last one's time may be missing.
  const last = timeOf(points.at(-1)!)!
  const whole = points.filter((point) => timeOf(point) !== last)
  return [inOrder(whole, direction), { kind: 'at', at: last }]
}

function inOrder(points: QdrantRecord[], direction: 'asc' | 'desc'): QdrantRecord[] {
  const sign = direction === 'asc' ? 1 : -1
  return points.toSorted((a, b) => (timeOf(a)! - timeOf(b)!) * sign || (a.id < b.id ? -1 : 1))
}

const timeOf = ({ payload }: QdrantRecord) => (payload as { [updatedAtField]?: number })[updatedAtField]

/** Where a page begins that begins with the point. */
export function placeOf(point: QdrantRecord): string {
  return `${timeOf(point) ?? ''}/${point.id}`
}

function readPlace(offset: string | undefined): Place {
  if (offset === undefined) return { kind: 'beyond' }
  const [, at = '', id] = /^(-?\d*)\/([0-9a-f-]{36})$/.exec(offset) ?? []
  if (id === undefined || at === '-') throw unknownPlace()
  return at === '' ? { kind: 'rest', id } : { kind: 'at', at: Number(at), id }
}
