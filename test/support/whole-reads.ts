/** Reads with `after` in every way that the gateway has, as observations of single keys. */

import { type Client, ProblemError } from '#client/client.ts'
import { type Accepted, type History, type Read, type Seen, vectorOf } from './whole-history.ts'

interface Reading {
  client: Client
  named: Accepted
  /** The content of a point that was read. */
  take(id: string, seen: Seen): void
}

type Way = (reading: Reading) => Promise<void>

const pageMax = 100

const ways: Record<string, Way> = {
  get: async ({ client, named: { collection, ids, answer }, take }) => {
    const { points, missing } = await client.getMany(collection, ids, { after: answer.operation_id })
    for (const { id, payload } of points) take(id, versionIn(payload))
    for (const id of missing) take(id, 'missing')
  },
  scroll: async ({ client, named: { collection, ids, answer }, take }) => {
    const page = { collection, limit: pageMax, withPayload: true, after: answer.operation_id }
    const { points } = await client.scroll(page)
    const found = new Map(points.map(({ id, payload }) => [id, versionIn(payload)]))
    for (const id of new Set([...found.keys(), ...ids])) take(id, found.get(id) ?? 'missing')
  },
  search: async ({ client, named, take }) => {
    const { collection, ids, answer, write } = named
    const { results } = await client.search({
      collection,
      vector: vectorOf(write.version),
      limit: pageMax,
      filter: ofVersion(write.version),
      withPayload: true,
      after: answer.operation_id,
    })
    const found = new Map(results.map(({ id, payload }) => [id, versionIn(payload)]))
    for (const id of new Set([...found.keys(), ...ids])) {
      if (write.kind === 'upsert') take(id, found.get(id) ?? { other: write.version })
    }
  },
  count: async ({ client, named, take }) => {
    const { collection, ids, answer, write } = named
    if (write.kind === 'delete') return
    const given = { filter: ofVersion(write.version), after: answer.operation_id }
    const count = await client.count(collection, given)
    // How many hold it says which only where it is all or none.
    if (count === ids.length) for (const id of ids) take(id, { version: write.version })
    if (count === 0) for (const id of ids) take(id, { other: write.version })
  },
  'search-pg': async ({ client, named: { collection, ids, answer, write }, take }) => {
    const { results } = await client.searchPg({
      vector: vectorOf(write.version),
      limit: pageMax,
      filterSql: `collection = '${collection}' AND id IN (${ids.map((id) => `'${id}'`).join(', ')})`,
      withPayload: true,
      after: answer.operation_id,
    })
    const found = new Map(results.map(({ id, payload }) => [id, versionIn(payload)]))
    for (const id of ids) take(id, found.get(id) ?? 'missing')
  },
  // An applied write is visible to every later read, without its id.
  'get without after': async ({ client, named, take }) => {
    const { collection, ids, answer } = named
    if (answer.status !== 'applied') return
    const { points, missing } = await client.getMany(collection, ids)
    for (const { id, payload } of points) take(id, versionIn(payload))
    for (const id of missing) take(id, 'missing')
  },
}

/** Reads once, in one of the ways; resolves with why there was no answer. */
export async function readAfter(
  client: Client,
  named: Accepted,
  history: History,
  random: () => number,
): Promise<ProblemError | undefined> {
  const names = Object.keys(ways)
  const what = names[Math.floor(random() * names.length)] as string
  const begunAt = performance.now()
  const reads: Read[] = []
  const take = (id: string, seen: Seen) => {
    const key = `${named.collection}/${id}`
    reads.push({ what, key, seen, after: named.answer.operation_id, begunAt })
  }
  try {
    await (ways[what] as Way)({ client, named, take })
    history.reads.push(...reads)
    return undefined
  } catch (error) {
    if (error instanceof ProblemError) return error
    throw error
  }
}

function versionIn(payload: unknown): Seen {
  return { version: (payload as { version: number }).version }
}

function ofVersion(version: number) {
  return { must: [{ key: 'version', match: { value: version } }] }
}
