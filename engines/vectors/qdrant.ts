/** The vector engine on Qdrant. It starts, and goes on, while Qdrant is away. */

import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { checkOperations, hnsw, vectorDimension, vectorsUnavailable } from './collections.ts'
import type { VectorStore } from './port.ts'
import { type Call, CollectionMissing, openCalls, pathOf, type QdrantLog } from './qdrant/calls.ts'
import { createReader } from './qdrant/reader.ts'
import { createWriter, deletedAtField, tokensField } from './qdrant/writer.ts'

const oldest = { major: 1, minor: 16 }

/** The fault of the server's version; null when there is none. */
async function tooOld(call: Call): Promise<string | null> {
  const { version } = await call<{ version: string }>('version', 'GET', '/')
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > oldest.major || (major === oldest.major && minor >= oldest.minor)) return null
  return `Qdrant ${version} is too old: ${oldest.major}.${oldest.minor} or newer is needed, for conditional writes.`
}

export interface QdrantVectorsOptions {
  /** http(s)://host[:port][/prefix]; the port is 6333 unless given. */
  url: string
  apiKey?: string
  collections: readonly string[]
  dimension?: number
  log: QdrantLog
  /** Limit of a read, ms; a write may take twice as long, a change of collections six times. Default 10,000. */
  timeoutMs?: number
}

const pingTimeoutMs = deadlines.engine.pingMs
const { vectorReadMs, vectorWriteMs } = deadlines.engine
const writeTimeoutFactor = vectorWriteMs / vectorReadMs
const changeTimeoutFactor = 6
const prepareWait = { baseMs: 500, maxMs: 10_000 }

/**
 * Resolves whether Qdrant answers or not; what it lacks is made as soon as it does, by the first call or in the
 * background. Throws AppError `invalid_configuration` for a Qdrant that cannot write under a condition.
 */
export async function openQdrantVectors(options: QdrantVectorsOptions): Promise<VectorStore> {
  const { log, dimension = vectorDimension, collections, timeoutMs = vectorReadMs } = options
  const calls = openCalls(options, log)
  const call = calls.within(timeoutMs)
  const reader = createReader(call)
  const writer = createWriter(calls.within(timeoutMs * writeTimeoutFactor), dimension)
  const changing = calls.within(timeoutMs * changeTimeoutFactor)
  const generations = createGenerations(changing, collections, dimension)
  const old = await withTimeout(tooOld(call), pingTimeoutMs, vectorsUnavailable).catch(() => null)
  if (old) throw new AppError('invalid_configuration', old)
  const readiness = keepReady(async () => {
    // It may have been away at the start, or come back as another one.
    const fault = await tooOld(call)
    if (fault) {
      log.error({ fault }, 'vectors.qdrant-too-old')
      throw vectorsUnavailable()
    }
    await generations.prepare()
  })

  /** Runs work on a prepared Qdrant, and repeats it once when a collection was just replaced, or was lost. */
  async function run<T>(work: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      if (readiness.closed()) throw new AppError('shutting_down', 'The vector engine is closed.')
      try {
        await readiness.ready()
        return await work()
      } catch (error) {
        if (!(error instanceof CollectionMissing)) throw error
        readiness.forget()
        if (attempt > 0) throw vectorsUnavailable()
      }
    }
  }
  function on<T>(collection: string, work: () => Promise<T>): Promise<T> {
    if (collections.includes(collection)) return run(work)
    return Promise.reject(new AppError('collection_not_found', `There is no collection "${collection}".`))
  }
  return {
    driver: 'qdrant',
    apply: (collection, operations, { generation, signal } = {}) =>
      on(collection, async () => {
        checkOperations(operations, dimension)
        try {
          await writer.apply(collection, collectionOf(collection, generation), operations, signal)
        } catch (error) {
          if (generation === undefined || !(error instanceof CollectionMissing)) throw error
          throw new AppError('conflict', `There is no generation ${generation}.`)
        }
      }),
    forgetDeletions: (olderThanMs) =>
      run(async () => {
        for (const collection of collections) await writer.forgetDeletions(collection, olderThanMs)
      }),
    search: (collection, query) => on(collection, () => reader.search(collection, query)),
    scroll: (collection, query) => on(collection, () => reader.scroll(collection, query)),
    count: (collection, filter) => on(collection, () => reader.count(collection, filter)),
    get: (collection, ids) => on(collection, () => reader.get(collection, ids)),
    stats: () => run(() => Promise.all(collections.map((name) => reader.stats(name, dimension)))),
    liveGeneration: () => run(() => generations.live()),
    createGeneration: (generation) => run(() => generations.create(generation)),
    promoteGeneration: (generation) => run(() => generations.promote(generation)),
    dropGeneration: (generation) => run(() => generations.drop(generation)),
    ping: (limitMs = pingTimeoutMs) =>
      withTimeout(
        run(async () => void (await call('ping', 'GET', `${pathOf(collections[0]!)}/exists`))),
        limitMs,
        vectorsUnavailable,
      ),
    async close() {
      readiness.close()
      await calls.close()
    },
  }
}

/** Prepares Qdrant once, shared by all calls; in the background it is tried until it works. */
function keepReady(prepare: () => Promise<void>) {
  const stop = new AbortController()
  let preparing: Promise<void> | undefined

  function ready(): Promise<void> {
    preparing ??= prepare().catch((error: unknown) => {
      preparing = undefined
      throw error
    })
    return preparing
  }
  async function tryUntilReady(): Promise<void> {
    for (let attempt = 0; !stop.signal.aborted; attempt++) {
      try {
        return await ready()
      } catch {
        await sleep(prepareWait.baseMs + backoffMs(attempt, prepareWait), stop.signal)
      }
    }
  }
  void tryUntilReady()
  return {
    ready,
    forget: () => {
      preparing = undefined
    },
    closed: () => stop.signal.aborted,
    close: () => stop.abort(),
  }
}

/** Field of the payload → what its index answers: filters on any key; which points are deleted, and since when. */
const indexes = [
  [tokensField, 'keyword'],
  [deletedAtField, 'integer'],
] as const

function collectionOf(name: string, generation: number | undefined): string {
  return generation === undefined ? name : `${name}__g${generation}`
}

/** Generations: real collections `<name>__g<n>`, and an alias `<name>` that points at the live one. */
function createGenerations(call: Call, names: readonly string[], dimension: number) {
  /** Name → the generation that its alias points at. */
  async function aliased(): Promise<Map<string, number>> {
    type Alias = { alias_name: string; collection_name: string }
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
