/** The embedded vector engine: a worker thread keeps the points in SQLite and finds neighbours with zvec. */

import { resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from 'pino'
import { unlessAborted, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { openWorker } from '#lib/worker-rpc.ts'
import {
  checkOperations,
  newestPerId,
  parseStoredName,
  vectorDimension,
  vectorsUnavailable,
} from './collections.ts'
import type { MessageLog } from './embedded/points-file.ts'
import type { Write } from './embedded/points-write.ts'
import type { EmbeddedHandlers, EngineOptions, PackedHeld, PackedPoint } from './embedded/thread.ts'
import type { HeldPoint, Payload, Point, PointOperation, VectorStore } from './port.ts'

type LogLevel = Parameters<MessageLog>[0]

export interface EmbeddedVectorsOptions {
  /** Its owner must hold the lock of the data directory: nothing here stops a second process. */
  directory: string
  collections: readonly string[]
  dimension?: number
  log: Pick<Logger, LogLevel>
  /** `exact` compares with every point; it is also used where the native index cannot be loaded. */
  index?: 'zvec' | 'exact'
  /** The package of the native index; tests name one that is not there. */
  nativeModule?: string
}

/** Checked, and packed, before other work gets a turn. */
const operationsPerSlice = 200
const pingTimeoutMs = deadlines.engine.pingMs
const closeTimeoutMs = deadlines.embedded.vectorsCloseMs

/** Opens the store; resolves when every index is there, also those that an unclean stop made it build again. */
export async function openEmbeddedVectors(options: EmbeddedVectorsOptions): Promise<VectorStore> {
  const { log, dimension = vectorDimension, index = 'zvec', collections } = options
  for (const name of collections) demandTableName(name)
  const { nativeModule = '@zvec/zvec' } = options
  const directory = resolve(options.directory)
  const data: EngineOptions = { directory, collections: [...collections], dimension, index, nativeModule }
  let ending = false
  const entry = new URL('./embedded/thread.ts', import.meta.url)
  const worker = openWorker<EmbeddedHandlers>({ entry, name: 'vectors', data }, (cause) => {
    if (!ending) log.error({ cause: describeError(cause) }, 'vectors.thread-ended')
    return vectorsUnavailable()
  })
  worker.on('log', ({ level, message, fields }: { level: LogLevel; message: string; fields: object }) =>
    log[level](fields, message),
  )
  let driver: Awaited<ReturnType<typeof worker.call.open>>
  try {
    driver = await worker.call.open()
  } catch (error) {
    ending = true
    await worker.terminate()
    throw error
  }
  let closing: Promise<void> | undefined
  const { call } = worker

  /** Runs one call; faults that are not the caller's are logged and reported as "unavailable". */
  async function run<T>(what: string, work: () => Promise<T>): Promise<T> {
    if (closing) throw new AppError('shutting_down', 'The vector engine is closed.')
    try {
      return await work()
    } catch (error) {
      if (error instanceof AppError) throw error
      log.error({ call: what, cause: describeError(error) }, 'vectors.failed')
      throw vectorsUnavailable()
    }
  }
  function on<T>(collection: string, what: string, work: () => Promise<T>): Promise<T> {
    return run(what, () => {
      if (collections.includes(collection) || parseStoredName(collection)) return work()
      throw new AppError('collection_not_found', `There is no collection "${collection}".`)
    })
  }
  async function closeAll(): Promise<void> {
    try {
      await withTimeout(call.close(), closeTimeoutMs, () => new Error('closing took too long'))
    } catch (error) {
      // Nothing is lost: without the mark of a clean stop the next start builds the index again.
      log.warn({ cause: describeError(error) }, 'vectors.close-failed')
    }
    await worker.terminate()
  }
  return {
    driver,
    apply: (collection, operations, { generation, signal } = {}) =>
      on(collection, 'apply', async () => {
        await inSlices(operations, (slice, from) => checkOperations(slice, dimension, from))
        const sent: Promise<unknown>[] = []
        await inSlices(newestPerId(operations), (slice) => {
          if (signal?.aborted) throw vectorsUnavailable()
          const { writes, moved } = packWrites(slice, dimension)
          const applied = worker.send('apply', [collection, writes, generation], [moved])
          // Awaited below; one that fails before must not end the process.
          applied.catch(() => undefined)
          sent.push(applied)
        })
        // The thread finishes a call that was given up.
        await (signal ? unlessAborted(Promise.all(sent), signal, vectorsUnavailable) : Promise.all(sent))
      }),
    forgetDeletions: (olderThanMs) =>
      run('forgetDeletions', () => call.forgetDeletions(Date.now() - olderThanMs)),
    search: (collection, query) =>
      on(collection, 'search', async () => {
        // A copy of its own: posting a view would take the whole buffer behind it along.
        const vector = query.vector.slice()
        const found = (await worker.send(
          'search',
          [collection, { ...query, vector }],
          [vector.buffer],
        )) as Awaited<ReturnType<typeof call.search>>
        const { points, scores, eligible, filled } = found
        return { hits: points.map((point, i) => ({ ...unpack(point), score: scores[i]! })), eligible, filled }
      }),
    scroll: (collection, query) =>
      on(collection, 'scroll', async () => {
        const found = await call.scroll(collection, query)
        return { points: found.points.map(unpack), next: found.next }
      }),
    count: (collection, filter) => on(collection, 'count', () => call.count(collection, filter)),
    get: (collection, ids) =>
      on(collection, 'get', async () => (await call.get(collection, ids)).map(unpack) as Point[]),
    held: (collection, ids, { generation } = {}) =>
      on(collection, 'held', async () => (await call.held(collection, ids, generation)).map(unpackHeld)),
    expired: (collection, limit) => on(collection, 'expired', () => call.expired(collection, limit)),
    stats: () => run('stats', () => call.stats()),
    embedders: (collection, filter) => on(collection, 'embedders', () => call.embedders(collection, filter)),
    // Equality and times have an index for every key; rows of other filters are kept.
    indexPayload: (collection) => on(collection, 'indexPayload', async () => {}),
    dropCollection: (collection) =>
      on(collection, 'dropCollection', () => {
        if (!collections.includes(collection)) return call.dropCollection(collection)
        throw new AppError('conflict', `The collection "${collection}" is always there.`)
      }),
    liveGeneration: () => run('liveGeneration', () => call.liveGeneration()),
    createGeneration: (generation) => run('createGeneration', () => call.createGeneration(generation)),
    promoteGeneration: (generation) => run('promoteGeneration', () => call.promoteGeneration(generation)),
    dropGeneration: (generation) => run('dropGeneration', () => call.dropGeneration(generation)),
    ping: (timeoutMs = pingTimeoutMs) =>
      run('ping', () => withTimeout(call.ping(), timeoutMs, vectorsUnavailable)),
    close() {
      ending = true
      closing ??= closeAll()
      return closing
    },
  }
}

/** Other work gets its turn in between: to look at a thousand vectors takes milliseconds. */
async function inSlices<T>(items: T[], work: (slice: T[], from: number) => void): Promise<void> {
  for (let from = 0; from < items.length; from += operationsPerSlice) {
    if (from > 0) await nextTurn()
    work(items.slice(from, from + operationsPerSlice), from)
  }
}

/** The operations as they go to the thread: all vectors in one buffer, which is moved, not copied. */
function packWrites(operations: PointOperation[], dimension: number) {
  const upserts = operations.filter(({ kind }) => kind === 'upsert')
  const vectors = new Float32Array(upserts.length * dimension)
  let packed = 0
  const writes = operations.map((operation): Write => {
    const { id, position } = operation
    if (operation.kind === 'delete') {
      return { id, position, payload: null, vector: null, embedder: null, expiresAt: null }
    }
    const vector = vectors.subarray(packed, packed + dimension)
    vector.set(operation.vector)
    packed += dimension
    const { embedder = null, expiresAt = null } = operation
    return { id, position, payload: JSON.stringify(operation.payload), vector, embedder, expiresAt }
  })
  return { writes, moved: vectors.buffer }
}

function unpack({ payload, ...point }: PackedPoint) {
  return payload === undefined ? point : { ...point, payload: JSON.parse(payload) as Payload }
}

function unpackHeld({ point, ...known }: PackedHeld): HeldPoint {
  return point ? { ...known, point: unpack(point) as Point } : known
}

function demandTableName(name: string): void {
  if (!/^[a-z][a-z0-9_]{0,62}$/.test(name)) {
    throw new AppError('invalid_configuration', `A collection cannot be named ${JSON.stringify(name)}.`)
  }
}
