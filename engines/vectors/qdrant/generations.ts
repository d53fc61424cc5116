/**
 * Generations in Qdrant: real collections `<name>__g<n>`, and an alias `<name>` that points at the live one. Collections besides
 * the platform's own are made by their first write.
 */

import { AppError } from '#lib/errors.ts'
import { hnsw, parseStoredName } from '../collections.ts'
import { type Call, CollectionMissing, pathOf } from './calls.ts'
import { deletedAtField, shapeField, tokensField, updatedAtField } from './filters.ts'
import { embedderField } from './writer.ts'

/**
 * Field of the payload → its index, for filters on any key; which points are deleted, and since when; how many points
 * an embedder made; which points have their values; their order
 * in time.
 */
const indexes = [
  [tokensField, 'keyword'],
  [deletedAtField, 'integer'],
  [embedderField, 'keyword'],
  [shapeField, 'integer'],
  [updatedAtField, 'integer'],
] as const

export function collectionOf(name: string, generation: number | undefined): string {
  return generation === undefined ? name : `${name}__g${generation}`
}

/** Name and generation of a real collection; null for one that is not ours. */
function partsOf(collection: string): { name: string; generation: number } | null {
  const found = /^(.+)__g(\d+)$/.exec(collection)
  return found && { name: found[1]!, generation: Number(found[2]) }
}

/** Aliases and collections that are there, and single changes of them. */
function createParts(call: Call, names: readonly string[], dimension: number) {
  const isOurs = (name: string) => names.includes(name) || parseStoredName(name) !== null

  /** Name → the generation that its alias points at. */
  async function aliased(): Promise<Map<string, number>> {
    type Alias = { alias_name: string; collection_name: string }
    const { aliases } = await call<{ aliases: Alias[] }>('aliases', 'GET', '/aliases')
    const found = new Map<string, number>()
    for (const { alias_name, collection_name } of aliases) {
      const parts = partsOf(collection_name)
      if (parts?.name === alias_name && isOurs(alias_name)) found.set(alias_name, parts.generation)
    }
    return found
  }
  function liveOf(found: ReadonlyMap<string, number>): number {
    const generations = names.flatMap((name) => found.get(name) ?? [])
    if (generations.length === 0) throw new CollectionMissing()
    return Math.max(...generations)
  }
  /** Our collections, in all generations or one. */
  async function collections(generation?: number): Promise<{ name: string; generation: number }[]> {
    type List = { collections: { name: string }[] }
    const list = (await call<List>('collections', 'GET', '/collections')).collections
    const parts = list.flatMap(({ name }) => partsOf(name) ?? []).filter(({ name }) => isOurs(name))
    return parts.filter((one) => generation === undefined || one.generation === generation)
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
  async function changeAliases(what: string, actions: object[]): Promise<void> {
    if (actions.length > 0) await call(what, 'POST', '/collections/aliases', { actions })
  }
  async function remove(all: readonly { name: string; generation: number }[]): Promise<void> {
    for (const { name, generation } of all) {
      try {
        await call('delete-collection', 'DELETE', pathOf(collectionOf(name, generation)))
      } catch (error) {
        if (!(error instanceof CollectionMissing)) throw error
      }
    }
  }
  return { aliased, liveOf, collections, isThere, make, makeIndexes, changeAliases, remove }
}

/** `names` are always there. */
export function createGenerations(call: Call, names: readonly string[], dimension: number) {
  const parts = createParts(call, names, dimension)
  const { aliased, liveOf, collections, isThere, make, makeIndexes, changeAliases, remove } = parts
  const live = async () => liveOf(await aliased())

  async function demandNotLive(generation: number): Promise<void> {
    if ((await live()) === generation) throw new AppError('conflict', `Generation ${generation} is live.`)
  }
  /** Aliases for collections of the live generation that were made while it was promoted, or before a kill. */
  async function completeAliases(): Promise<void> {
    const found = await aliased()
    const generation = liveOf(found)
    const made = await collections(generation)
    const missing = made.filter(({ name }) => found.get(name) !== generation)
    await changeAliases(
      'create-aliases',
      missing.map(({ name }) => createAlias(name, generation)),
    )
  }

  return {
    live,
    aliased,
    /** Asked for a collection that a read did not find. Throws CollectionMissing where the platform's own are missing, too. */
    async isAliased(name: string): Promise<boolean> {
      const found = await aliased()
      liveOf(found)
      return found.has(name)
    },
    /** Creates missing collections, indexes and aliases. Safe from several processes at once. */
    async prepare(): Promise<void> {
      const found = await aliased()
      const known = names.flatMap((name) => found.get(name) ?? [])
      const generation = known.length === 0 ? 1 : Math.max(...known)
      const missing = names.filter((name) => !found.has(name))
      for (const name of missing) await make(name, generation)
      // Those of a release that had fewer indexes: reads are right without, and a large collection takes its time.
      for (const name of found.keys()) await makeIndexes(name, false)
      const actions = missing.map((name) => createAlias(name, generation))
      await changeAliases('create-aliases', actions)
      await completeAliases()
    },
    /** For the first write. Throws AppError `conflict` for a generation that is not there. */
    async makeOwn(name: string, generation: number): Promise<void> {
      if (!(await isThere(collectionOf(names[0]!, generation)))) {
        throw new AppError('conflict', `There is no generation ${generation}.`)
      }
      await make(name, generation)
      // Asked after it was made: a promotion that did not see it is over by then.
      const found = await aliased()
      if (liveOf(found) !== generation || found.get(name) === generation) return
      await changeAliases('create-aliases', [createAlias(name, generation)])
    },
    async create(generation: number): Promise<void> {
      await demandNotLive(generation)
      await remove(await collections(generation))
      for (const name of names) await make(name, generation)
    },
    async promote(generation: number): Promise<void> {
      const found = await aliased()
      const former = liveOf(found)
      if (former === generation) return
      const next = (await collections(generation)).map(({ name }) => name)
      if (names.some((name) => !next.includes(name))) {
        throw new AppError('conflict', `There is no generation ${generation}.`)
      }
      // One request: Qdrant changes all of them at once.
      await changeAliases('flip-aliases', [
        ...[...found.keys()].map((name) => ({ delete_alias: { alias_name: name } })),
        ...next.map((name) => createAlias(name, generation)),
      ])
      await completeAliases()
      await remove(await collections(former))
    },
    async drop(generation: number): Promise<void> {
      await demandNotLive(generation)
      await remove(await collections(generation))
    },
    /** Its aliases go with it. */
    async dropCollection(name: string): Promise<void> {
      await remove((await collections()).filter((one) => one.name === name))
    },
  }
}

/** Takes the place of an alias of that name. */
function createAlias(name: string, generation: number) {
  return { create_alias: { alias_name: name, collection_name: collectionOf(name, generation) } }
}
