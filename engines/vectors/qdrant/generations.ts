/**
 * Generations in Qdrant: real collections `<name>__g<n>`, and an alias `<name>` that points at the live one. Collections besides
 * the platform's own are made by their first write.
 */

import { AppError } from '#lib/errors.ts'
import { parseStoredName } from '../collections.ts'
import type { PayloadIndexType } from '../port.ts'
import { CollectionMissing, type QdrantLog } from './attempts.ts'
import { type Call, pathOf } from './calls.ts'
import { indexesOf, isValueField } from './filters.ts'
import { type CollectionInfo, changesOf, collectionConfig, indexes, indexesToMove } from './storage.ts'

export function collectionOf(name: string, generation: number | undefined): string {
  return generation === undefined ? name : `${name}__g${generation}`
}

/** Name and generation of a real collection; null for one that is not ours. */
function partsOf(collection: string): { name: string; generation: number } | null {
  const found = /^(.+)__g(\d+)$/.exec(collection)
  return found && { name: found[1]!, generation: Number(found[2]) }
}

export function noGeneration(generation: number): AppError {
  return new AppError('conflict', `There is no generation ${generation}.`)
}

interface GenerationOptions {
  /** Collections that are always there. */
  names: readonly string[]
  /** Those whose vectors lie on disk, with copies in memory. */
  copied?: readonly string[]
  dimension: number
  log: QdrantLog
}

/** Aliases and collections that are there, and single changes of them. */
function createParts(call: Call, options: GenerationOptions) {
  const { names, copied = ['fleet_notes'], dimension, log } = options
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
    return call(
      'create-collection',
      'PUT',
      pathOf(collection),
      collectionConfig(dimension, copied.includes(partsOf(collection)?.name ?? '')),
    )
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
  /** Resolves with how the collection is kept. */
  async function makeIndexes(collection: string, wait: boolean): Promise<CollectionInfo> {
    const path = pathOf(collection)
    const info = await call<CollectionInfo>('collection', 'GET', path)
    for (const [field, schema] of Object.entries(indexes)) {
      if (!(field in info.payload_schema)) await makeIndex(path, field, schema, wait)
    }
    return info
  }
  /** Those that a filter's key has in the live generation. */
  async function copyValueIndexes(from: string, to: string): Promise<void> {
    const { payload_schema } = await call<CollectionInfo>('collection', 'GET', pathOf(from))
    for (const [field, { data_type, params }] of Object.entries(payload_schema)) {
      if (isValueField(field)) await makeIndex(pathOf(to), field, params ?? data_type!, false)
    }
  }
  function makeIndex(path: string, field_name: string, field_schema: string | object, wait: boolean) {
    return call('create-index', 'PUT', `${path}/index?wait=${wait}`, { field_name, field_schema })
  }
  /**
   * Changes a collection of a former release to the form that new ones have. Qdrant rewrites it in the background and answers
   * from the old form meanwhile, so nobody waits, and a refusal costs memory alone. Twice the same change is one.
   */
  async function changeOver(collection: string, info: CollectionInfo): Promise<void> {
    const path = pathOf(collection)
    const changes = copied.includes(partsOf(collection)?.name ?? '') ? changesOf(info) : null
    const moved = indexesToMove(info)
    if (changes === null && moved.length === 0) return
    try {
      if (changes) await call('change-collection', 'PATCH', path, changes)
      for (const field of moved) await makeIndex(path, field, indexes[field], false)
      log.info({ collection, changes, indexes: moved }, 'vectors.qdrant-changed')
    } catch {
      // The call has said why. The next start tries again.
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
  return {
    aliased,
    liveOf,
    collections,
    isThere,
    make,
    makeIndexes,
    makeIndex,
    copyValueIndexes,
    changeOver,
    changeAliases,
    remove,
  }
}

export function createGenerations(call: Call, options: GenerationOptions) {
  const { names } = options
  const parts = createParts(call, options)
  const { aliased, liveOf, collections, isThere, make, makeIndexes, changeAliases, remove } = parts
  const live = async () => liveOf(await aliased())

  async function collectionsNamed(name: string) {
    return (await collections()).filter((each) => each.name === name)
  }
  async function demandNotLive(generation: number): Promise<void> {
    if ((await live()) === generation) throw new AppError('conflict', `Generation ${generation} is live.`)
  }
  async function demandThere(generation: number): Promise<void> {
    if (!(await isThere(collectionOf(names[0]!, generation)))) throw noGeneration(generation)
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

  /** For the first write. Throws AppError `conflict` for a generation that is not there. */
  async function makeOwn(name: string, generation: number): Promise<void> {
    await demandThere(generation)
    await make(name, generation)
    const former = (await aliased()).get(name)
    if (former !== undefined) await parts.copyValueIndexes(name, collectionOf(name, generation))
    // Asked after it was made: a promotion that did not see it is over by then.
    const found = await aliased()
    if (liveOf(found) !== generation || found.get(name) === generation) return
    await changeAliases('create-aliases', [createAlias(name, generation)])
  }
  return {
    live,
    aliased,
    /** Throws AppError `conflict` for a generation that is not there. */
    demandThere,
    /** Asked for a collection that a read did not find. Throws CollectionMissing where the platform's own are missing, too. */
    async isAliased(name: string): Promise<boolean> {
      const found = await aliased()
      liveOf(found)
      return found.has(name)
    },
    /** Creates missing collections, indexes and aliases, and changes over those of a former release. Safe from several processes at once. */
    async prepare(): Promise<void> {
      const found = await aliased()
      const known = names.flatMap((name) => found.get(name) ?? [])
      const generation = known.length === 0 ? 1 : Math.max(...known)
      const missing = names.filter((name) => !found.has(name))
      for (const name of missing) await make(name, generation)
      // Those of a release that had fewer indexes: reads are right without, and a large collection takes its time.
      for (const [name, each] of found) {
        const info = await makeIndexes(name, false)
        void parts.changeOver(collectionOf(name, each), info)
      }
      const actions = missing.map((name) => createAlias(name, generation))
      await changeAliases('create-aliases', actions)
      await completeAliases()
    },
    makeOwn,
    async create(generation: number): Promise<void> {
      await demandNotLive(generation)
      await remove(await collections(generation))
      for (const name of names) {
        await make(name, generation)
        await parts.copyValueIndexes(name, collectionOf(name, generation))
      }
    },
    /** In every generation that has the collection; those that come later copy the live one's. */
    async indexPayload(name: string, key: string, type: PayloadIndexType): Promise<void> {
      let there = await collectionsNamed(name)
      if (there.length === 0) {
        // One of somebody's own into which nothing was written.
        await makeOwn(name, await live())
        there = await collectionsNamed(name)
      }
      for (const one of there) {
        const path = pathOf(collectionOf(name, one.generation))
        for (const [field, schema] of indexesOf(key, type)) await parts.makeIndex(path, field, schema, false)
      }
    },
    async promote(generation: number): Promise<void> {
      const found = await aliased()
      const former = liveOf(found)
      if (former === generation) return
      const next = (await collections(generation)).map(({ name }) => name)
      if (names.some((name) => !next.includes(name))) {
        throw noGeneration(generation)
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
