/** A page of a scroll: of rows that are known, sorted by their ids, or met on a walk in the order of ids. */

import { setImmediate } from 'node:timers/promises'
import { unknownPlace } from '../collections.ts'
import type { ScrollQuery } from '../port.ts'
import { compareIds } from '../score.ts'
import { rowsPerSlice } from './matching-rows.ts'
import { isPresent, type PointsTable, type StoredPoint } from './points-table.ts'
import type { TimedRow, Times } from './times-index.ts'

export interface Page {
  points: (StoredPoint & { place?: string })[]
  /** The id, or the place in the order, that the next page begins with. */
  next: string | null
}

export type RowTest = (row: StoredPoint) => boolean

/** Only rows of the page are read whole. */
export function sortedPage(table: PointsTable, ns: number[], query: ScrollQuery, matches: RowTest): Page {
  const page = createPage(query)
  const from = query.offset ?? ''
  const ids = ns.flatMap((n) => table.idOfRow(n) ?? []).filter((id) => compareIds(id, from) >= 0)
  for (const id of ids.sort(compareIds)) {
    const [row] = table.byIds([id])
    if (row && matches(row) && !page.add(row)) break
  }
  return page.page
}

export async function walkedPage(table: PointsTable, query: ScrollQuery, matches: RowTest): Promise<Page> {
  const page = createPage(query)
  for (let start = query.offset ?? ''; ; ) {
    let looked = 0
    let following: string | undefined
    for (const row of table.fromId(start, rowsPerSlice + 1)) {
      looked += 1
      if (looked > rowsPerSlice) {
        following = row.id
        break
      }
      if (isPresent(row) && matches(row) && !page.add(row)) return page.page
    }
    if (following === undefined) return page.page
    start = following
    await setImmediate()
  }
}

/** In the order of times; rows that pass `isIn`. */
export async function orderedPage(
  table: PointsTable,
  times: Times,
  query: ScrollQuery,
  direction: 'asc' | 'desc',
  isIn: (n: number) => boolean,
): Promise<Page> {
  const page = createPage(query)
  for (let from = query.offset === undefined ? undefined : readPlace(query.offset); ; ) {
    const some = times.rows(direction, from, rowsPerSlice + 1)
    for (const timed of some.slice(0, rowsPerSlice)) {
      const row = isIn(timed.n) ? table.byRow(timed.n) : undefined
      if (row && !page.add({ ...row, place: `${timed.at}/${timed.n}` })) return page.page
    }
    if (some.length <= rowsPerSlice) return page.page
    from = some.at(-1)!
    await setImmediate()
  }
}

function readPlace(offset: string): TimedRow {
  const [at, n] = offset.split('/').map(Number)
  if (Number.isFinite(at) && Number.isSafeInteger(n)) return { at: at!, n: n! }
  throw unknownPlace()
}

/** A float32 as JSON has about so many characters. */
const bytesPerNumber = 20

/** Roughly: characters of a point's JSON in an answer. */
export function jsonBytes(
  { id, payload, vector }: StoredPoint,
  { withPayload, withVector }: Pick<ScrollQuery, 'withPayload' | 'withVector'>,
): number {
  const ofPayload = withPayload === false ? 0 : payload.length
  return id.length + ofPayload + (withVector === true ? vector.length * bytesPerNumber : 0)
}

/** A page that is being filled; `add` is false for the point that the next one begins with. */
function createPage(query: ScrollQuery): { page: Page; add(row: Page['points'][number]): boolean } {
  const page: Page = { points: [], next: null }
  const { limit, bytesMax = Number.POSITIVE_INFINITY } = query
  let bytes = 0
  return {
    page,
    add(row) {
      bytes += jsonBytes(row, query)
      if (page.points.length < limit && (page.points.length === 0 || bytes <= bytesMax)) {
        page.points.push(row)
        return true
      }
      page.next = row.place ?? row.id
      return false
    },
  }
}
