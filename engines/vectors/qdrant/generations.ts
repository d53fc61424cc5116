/** Generations in Qdrant: real collections `<name>__g<n>`, and an alias `<name>` that points at the live one. */

import { AppError } from '#lib/errors.ts'
import { hnsw } from '../collections.ts'
import { type Call, CollectionMissing, pathOf } from './calls.ts'
import { deletedAtField, tokensField } from './writer.ts'

/** Field of the payload → what its index answers: filters on any key; which points are deleted, and since when. */
const indexes = [
  [tokensField, 'keyword'],
  [deletedAtField, 'integer'],
] as const

interface Alias {
  alias_name: string
  collection_name: string
}

export function collectionOf(name: string, generation: number | undefined): string {
  return generation === undefined ? name : `${name}__g${generation}`
}

export function createGenerations(call: Call, names: readonly string[], dimension: number) {
  /** Name → the generation that its alias points at. */
  async function aliased(): Promise<Map<string, number>> {
    const { aliases } = await call<{ aliases: Alias[] }>('aliases', 'GET', '/aliases')
    const found = new Map<string, number>()
    for (const { alias_name, collection_name } of aliases) {
      const generation = collection_name.startsWith(`${alias_name}__g`)
        ? Number(collection_name.slice(alias_name.length + 3))
        : Number.NaN
      if (names.includes(alias_name) && Number.isInteger(generation)) found.set(alias_name, generation)
    }
    return found
  }
  async function live(): Promise<number> {
    const found = await aliased()
    if (found.size === 0) throw new CollectionMissing()
    return Math.max(...found.values())
  }
  async function isThere(collection: string): Promise<boolean> {
    const path = `${pathOf(collection)}/exists`
    return (await call<{ exists: boolean }>('collection-exists', 'GET', path)).exists
  }
  function create(collection: string): Promise<unknown> {
    return call('create-collection', 'PUT', pathOf(collection), {
      vectors: { size: dimension, distance: 'Cosine' },
      hnsw_config: { m: hnsw.m, ef_construct: hnsw.efConstruction },
    })
  }
  async function make(name: string, generation: number): Promise<void> {
    const collection = collectionOf(name, generation)
    if (!(await isThere(collection))) {
      // Another process may make it at the same time.
      await create(collection).catch(async (error: unknown) => {
        if (!(await isThere(collection))) throw error
      })
    }
    await makeIndexes(collection, true)
  }
  async function makeIndexes(collection: string, wait: boolean): Promise<void> {
    const path = pathOf(collection)
    const { payload_schema } = await call<{ payload_schema: object }>('indexes', 'GET', path)
    for (const [field_name, field_schema] of indexes) {
      if (field_name in payload_schema) continue
      await call('create-index', 'PUT', `${path}/index?wait=${wait}`, { field_name, field_schema })
    }
  }
  async function remove(generation: number): Promise<void> {
    for (const name of names) {
      try {
        await call('delete-collection', 'DELETE', pathOf(collectionOf(name, generation)))
      } catch (error) {
        if (!(error instanceof CollectionMissing)) throw error
      }
    }
  }
  async function demandNotLive(generation: number): Promise<void> {
    if ((await live()) === generation) throw new AppError('conflict', `Generation ${generation} is live.`)
  }
  return {
    live,
    /** Creates missing collections, indexes and aliases. Safe from several processes at once. */
    async prepare(): Promise<void> {
      const found = await aliased()
      const generation = found.size === 0 ? 1 : Math.max(...found.values())
      const missing = names.filter((name) => !found.has(name))
      for (const name of missing) await make(name, generation)
      // Those of a release that had fewer indexes: reads are right without, and a large collection takes its time.
      for (const name of found.keys()) await makeIndexes(name, false)
      if (missing.length === 0) return
      const actions = missing.map((name) => createAlias(name, generation))
      await call('create-aliases', 'POST', '/collections/aliases', { actions })
    },
    async create(generation: number): Promise<void> {
      await demandNotLive(generation)
      await remove(generation)
      for (const name of names) await make(name, generation)
    },
    async promote(generation: number): Promise<void> {
      const former = await live()
      if (former === generation) return
      for (const name of names) {
        if (await isThere(collectionOf(name, generation))) continue
        throw new AppError('conflict', `There is no generation ${generation}.`)
      }
      // One request: Qdrant changes all of them at once.
      const actions = names.flatMap((name) => [
        { delete_alias: { alias_name: name } },
        createAlias(name, generation),
      ])
      await call('flip-aliases', 'POST', '/collections/aliases', { actions })
      await remove(former)
    },
    async drop(generation: number): Promise<void> {
      await demandNotLive(generation)
      await remove(generation)
    },
  }
}

function createAlias(name: string, generation: number) {
  return { create_alias: { alias_name: name, collection_name: collectionOf(name, generation) } }
}
