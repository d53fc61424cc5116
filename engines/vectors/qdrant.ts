/** The vector engine on Qdrant. It starts, and goes on, while Qdrant is away. */

import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { vectorDimension } from './collections.ts'
import { checkOperations, lastPerId } from './operations.ts'
import type { PointOperation, VectorStore } from './port.ts'
import { CollectionMissing, createCall, createClient, type QdrantLog, unavailable } from './qdrant/calls.ts'
import { collectionOf, createGenerations, type QdrantGenerations } from './qdrant/generations.ts'
import { createPointIds, inBatches, toQdrantPoint, type Upsert } from './qdrant/points.ts'
import { createReader } from './qdrant/reader.ts'

export interface QdrantVectorsOptions {
  /** http(s)://host[:port][/prefix]; the port is 6333 unless given. */
  url: string
  apiKey?: string
  collections: readonly string[]
  dimension?: number
  log: QdrantLog
  /** Limit of a read; a write may take twice as long. Default 10,000. */
  timeoutMs?: number
}

const pingTimeoutMs = deadlines.engine.pingMs
const writeTimeoutFactor = deadlines.engine.vectorWriteMs / deadlines.engine.vectorReadMs
const idsPerDelete = 1_000
const prepareWait = { baseMs: 500, maxMs: 10_000 }

/** Resolves at once; what Qdrant lacks is made as soon as it answers, by the first call or in the background. */
export async function openQdrantVectors(options: QdrantVectorsOptions): Promise<VectorStore> {
  const {
    log,
    dimension = vectorDimension,
    collections,
    timeoutMs = deadlines.engine.vectorReadMs,
    url,
  } = options
  const address = { url, timeoutMs, ...(options.apiKey ? { apiKey: options.apiKey } : {}) }
  const client = createClient(address)
  const writing = createClient({ ...address, timeoutMs: timeoutMs * writeTimeoutFactor })
  const call = createCall(log)
  const reader = createReader(client, call)
  const generations = createGenerations(writing, call, collections, dimension)
  const readiness = keepReady(generations)

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
        if (attempt > 0) throw unavailable()
      }
    }
  }
  function on<T>(collection: string, work: () => Promise<T>): Promise<T> {
    if (collections.includes(collection)) return run(work)
    return Promise.reject(new AppError('collection_not_found', `There is no collection "${collection}".`))
  }
  async function write(collection: string, operations: PointOperation[], generation?: number): Promise<void> {
    const name = collectionOf(collection, generation)
    const pointId = createPointIds(collection)
    const last = lastPerId(operations)
    const upserts = last.filter((operation): operation is Upsert => operation.kind === 'upsert')
    const deleted = last.filter((operation) => operation.kind === 'delete').map(({ id }) => pointId(id))
    for (const points of inBatches(upserts.map((operation) => toQdrantPoint(operation, pointId)))) {
      await call('upsert', () => writing.upsert(name, { wait: true, points }))
    }
    for (let i = 0; i < deleted.length; i += idsPerDelete) {
      const points = deleted.slice(i, i + idsPerDelete)
      await call('delete', () => writing.delete(name, { wait: true, points }))
    }
  }
  return {
    driver: 'qdrant',
    apply: (collection, operations, { generation } = {}) =>
      on(collection, async () => {
        checkOperations(operations, dimension)
        try {
          await write(collection, operations, generation)
        } catch (error) {
          if (generation === undefined || !(error instanceof CollectionMissing)) throw error
          throw new AppError('conflict', `There is no generation ${generation}.`)
        }
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
        run(async () => void (await call('ping', () => client.collectionExists(collections[0]!)))),
        limitMs,
        unavailable,
      ),
    async close() {
      readiness.close()
    },
  }
}

/** Prepares Qdrant once, shared by all calls; in the background it is tried until it works. */
function keepReady(generations: QdrantGenerations) {
  const stop = new AbortController()
  let preparing: Promise<void> | undefined

  function ready(): Promise<void> {
    preparing ??= generations.prepare().catch((error: unknown) => {
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
