/** A query in; records out: the local index says which, and the gateway is asked for those alone. */

import type { ScoringName, SearchHit } from '../local-search/contract.ts'
import type { StoredPoint } from './types.ts'

export interface FindOptions {
  /** The index file; default: the client's `localIndex`. */
  index?: string
  /** Default 10. */
  limit?: number
  collection?: string
  status?: string
  tag?: string
  scoring?: ScoringName
  /** How many of the first hits are fetched from the gateway. Default: all of them; 0 asks it nothing. */
  fetch?: number
  signal?: AbortSignal
}

/** A hit of the local index, with the record as the gateway has it now. */
export interface FoundRecord extends SearchHit {
  /** Where the gateway has it; null where neither the record nor the call says: it is then not fetched. */
  collection: string | null
  point?: StoredPoint
}

export interface FindAnswer {
  query: string
  /** Records in the index that match. */
  total: number
  took_ms: number
  corrected?: Record<string, string>
  results: FoundRecord[]
  /** Ids that were asked for and that the gateway has no more. */
  missing: string[]
}

type GetMany = (
  collection: string,
  ids: string[],
  options: { signal?: AbortSignal },
) => Promise<{ points: StoredPoint[]; missing: string[] }>

/** As the gateway takes them in one call. */
const idsMax = 1_000

/** Throws TypeError without an index file, SearchFault for a bad one, and what `getMany` throws. */
export async function find(query: string, options: FindOptions, getMany: GetMany): Promise<FindAnswer> {
  const { index: file, fetch, signal, ...searching } = options
  if (file === undefined) throw new TypeError('give find an index, or createClient a localIndex')
  // Loaded only here: an agent that never searches locally does not carry it.
  const { openIndex } = await import('../local-search/index-file.ts')
  const index = openIndex(file)
  let results: FoundRecord[]
  let answer: ReturnType<typeof index.search>
  try {
    answer = index.search(query, searching)
    results = answer.results.map((hit) => ({ ...hit, collection: collectionOf(hit, options.collection) }))
  } finally {
    index.close()
  }
  const missing = await addPoints(results.slice(0, fetch ?? results.length), getMany, signal)
  return { ...answer, results, missing }
}

function collectionOf({ payload }: SearchHit, given: string | undefined): string | null {
  if (typeof payload.collection === 'string') return payload.collection
  return given ?? null
}

/** One call a collection; returns the ids that are no more. */
async function addPoints(
  records: FoundRecord[],
  getMany: GetMany,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const missing: string[] = []
  for (const [collection, members] of Map.groupBy(records, (record) => record.collection)) {
    for (let from = 0; collection !== null && from < members.length; from += idsMax) {
      const some = members.slice(from, from + idsMax)
      const answer = await getMany(
        collection,
        some.map(({ id }) => id),
        signal ? { signal } : {},
      )
      const points = new Map(answer.points.map((point) => [point.id, point]))
      for (const record of some) {
        const point = points.get(record.id)
        if (point) record.point = point
      }
      missing.push(...answer.missing)
    }
  }
  return missing
}
