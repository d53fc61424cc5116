/** Finds records in a local index first and asks the gateway only for the ones that it names. */

import type { StoredPoint } from './types.ts'

export interface FindOptions {
  /** The index file; default: the client's `localIndex`. */
  index?: string
  /** Default 10. */
  limit?: number
  collection?: string
  status?: string
  tag?: string
  scoring?: 'bm25' | 'literal'
  /** How many of the first hits are fetched from the gateway. Default: all of them; 0 asks it nothing. */
  fetch?: number
  signal?: AbortSignal
}

/** A hit of the local index, as @flotilla/stidx gives it; its types are not needed by those who never search locally. */
export interface LocalHit {
  id: string
  score: number
  title: string | null
  slug: string | null
  path: string | null
  field_score: number
  matched_fields: ('title' | 'slug' | 'path' | 'body')[]
  payload: Record<string, unknown>
}

/** A hit of the local index, with the record as the gateway has it now. */
export interface FoundRecord extends LocalHit {
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
  /** A phrase or filter of the query matched nothing: its words were searched in its place. */
  relaxed?: true
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

/** As @flotilla/stidx answers. */
interface LocalAnswer {
  query: string
  total: number
  took_ms: number
  corrected?: Record<string, string>
  relaxed?: true
  results: LocalHit[]
}

/** The part of @flotilla/stidx that is used here. */
export interface LocalSearch {
  openIndex(file: string): {
    search(query: string, options: Omit<FindOptions, 'index' | 'fetch' | 'signal'>): LocalAnswer
    close(): void
  }
}

/** Throws TypeError without an index file or @flotilla/stidx, SearchFault for a bad one, and what `getMany` throws. */
export async function find(query: string, options: FindOptions, getMany: GetMany): Promise<FindAnswer> {
  const { index: file, fetch, signal, ...searching } = options
  if (file === undefined) throw new TypeError('give find an index, or createClient a localIndex')
  const { openIndex } = await loadLocalSearch()
  const index = openIndex(file)
  let results: FoundRecord[]
  let answer: LocalAnswer
  try {
    answer = index.search(query, searching)
    results = answer.results.map((hit) => ({ ...hit, collection: collectionOf(hit, options.collection) }))
  } finally {
    index.close()
  }
  const missing = await addPoints(results.slice(0, fetch ?? results.length), getMany, signal)
  return { ...answer, results, missing }
}

/** Loaded only here: an agent that never searches locally does not install it. */
async function loadLocalSearch(): Promise<LocalSearch> {
  const name = '@flotilla/stidx'
  try {
    return (await import(name)) as LocalSearch
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new TypeError(`find needs the package ${name}: install it`, { cause })
  }
}

function collectionOf({ payload }: LocalHit, given: string | undefined): string | null {
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
  for (const [collection, members] of byCollection(records)) {
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

function byCollection(records: readonly FoundRecord[]): Map<string | null, FoundRecord[]> {
  const groups = new Map<string | null, FoundRecord[]>()
  for (const record of records) {
    const group = groups.get(record.collection)
    if (group) group.push(record)
    else groups.set(record.collection, [record])
  }
  return groups
}
