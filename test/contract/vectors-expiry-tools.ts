/** Tools of the suites about expiry: operations with a position and an expiry, and every kind of read. */

import type { Filter, PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { sleep } from '#lib/backoff.ts'

export const hourMs = 3_600_000
export const soon = () => Date.now() + 800
export const past = () => Date.now() - 1_000

/** Resolves when the clock shows `time`. */
export async function reached(time: number): Promise<void> {
  while (Date.now() < time) await sleep(time - Date.now())
}

interface Placed {
  offset: number
  epoch?: number
  expiresAt?: number
}

export function at(operation: PointOperation, { offset, epoch = 1, expiresAt }: Placed): PointOperation {
  const position = { epoch, offset }
  return { ...operation, position, ...(expiresAt === undefined ? {} : { expiresAt }) }
}

export const isAny: Filter = { must: [{ key: 'any', match: { value: true } }] }
/** Words alone do not decide it. */
export const isPositive: Filter = { must: [{ key: 'k', range: { gt: 0 } }] }
export const payloadOf = (k: number) => ({
  any: true,
  k,
  updated_at: new Date(1e12 + k * 1_000).toISOString(),
})

/** The answers of every kind of read. */
export async function seen(store: VectorStore, name: string, ids: string[], vector: Float32Array) {
  const names = (of: { id: string }[]) => of.map(({ id }) => id).sort()
  const search = async (filter?: Filter) =>
    names((await store.search(name, { vector, limit: 50, ...(filter ? { filter } : {}) })).hits)
  const scroll = async (rest: { filter?: Filter; updatedAt?: 'asc' | 'desc' }) =>
    names((await store.scroll(name, { limit: 50, ...rest })).points)
  const embedders = async (filter?: Filter) =>
    (await store.embedders(name, filter)).reduce((sum, { points }) => sum + points, 0)
  return {
    get: names(await store.get(name, ids)),
    search: [await search(), await search(isAny), await search(isPositive)],
    scroll: [
      await scroll({}),
      await scroll({ filter: isAny }),
      await scroll({ filter: isPositive }),
      await scroll({ updatedAt: 'asc' }),
      await scroll({ updatedAt: 'desc', filter: isAny }),
    ],
    count: [await store.count(name), await store.count(name, isAny), await store.count(name, isPositive)],
    embedders: [await embedders(), await embedders(isAny), await embedders(isPositive)],
    stats: (await store.stats()).find((one) => one.collection === name)?.points ?? 0,
  }
}

export function only(...ids: string[]) {
  const n = ids.length
  return {
    get: ids,
    search: [ids, ids, ids],
    scroll: [ids, ids, ids, ids, ids],
    count: [n, n, n],
    embedders: [n, n, n],
    stats: n,
  }
}
