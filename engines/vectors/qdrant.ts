/** The vector engine on Qdrant. It starts, and goes on, while Qdrant is away. */

import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { checkOperations, vectorDimension, vectorsUnavailable } from './collections.ts'
import type { CollectionStats, ScrollResult, SearchResult, VectorStore } from './port.ts'
import { createAccess, keepReady } from './qdrant/access.ts'
import { CollectionMissing, type QdrantLog } from './qdrant/attempts.ts'
import { type Call, openCalls, pathOf } from './qdrant/calls.ts'
import { collectionOf, createGenerations, noGeneration } from './qdrant/generations.ts'
import { createHeldReader } from './qdrant/held.ts'
import { createReader } from './qdrant/reader.ts'
import { createSender, createWriter, type SendPoints } from './qdrant/writer.ts'

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
  /** http(s)://host:port. Requests that write many points go there over gRPC; without it all goes over REST. */
  grpcUrl?: string
  /** Points that are many. Default 16: for fewer a call over gRPC takes more processor time than it saves. */
  grpcPointsMin?: number
  apiKey?: string
  collections: readonly string[]
  /** Those of many points that are seldom searched. Default: that of the audit notes. */
  copied?: readonly string[]
  dimension?: number
  log: QdrantLog
  /** Limit of a read, ms; a write may take twice as long, a change of collections six times. Default 10,000. */
  timeoutMs?: number
}

const pingTimeoutMs = deadlines.engine.pingMs
const { vectorReadMs, vectorWriteMs } = deadlines.engine
const writeTimeoutFactor = vectorWriteMs / vectorReadMs
const changeTimeoutFactor = 6
const statsAtOnce = 16
const noHits = (): SearchResult => ({ hits: [], filled: 0, eligible: 0 })
const noPoints = (): ScrollResult => ({ points: [], next: null })

/**
 * Resolves whether Qdrant answers or not; what it lacks is made as soon as it does, by the first call or in the
 * background. Throws AppError `invalid_configuration` for a Qdrant that cannot write under a condition.
 */
export async function openQdrantVectors(options: QdrantVectorsOptions): Promise<VectorStore> {
  const {
    log,
    dimension = vectorDimension,
    collections,
    timeoutMs = vectorReadMs,
    grpcPointsMin = 16,
  } = options
  const calls = openCalls(options, log)
  const call = calls.within(timeoutMs)
  const reader = createReader(call)
  const heldReader = createHeldReader(call)
  const writeMs = timeoutMs * writeTimeoutFactor
  const writing = calls.within(writeMs)
  const grpc = await openGrpc(options, writeMs)
  const rest = createSender(writing)
  const writer = createWriter(writing, grpc ? byCount(rest, grpc.send, grpcPointsMin) : rest, dimension)
  const changing = calls.within(timeoutMs * changeTimeoutFactor)
  const generations = createGenerations(changing, { ...options, names: collections, dimension })
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
  const access = createAccess(readiness, generations, collections)
  const { isAlwaysThere, demandName, run, read, readIn, write, present } = access
  return {
    driver: 'qdrant',
    apply: (collection, operations, { generation, signal } = {}) =>
      write(collection, generation, async () => {
        checkOperations(operations, dimension)
        try {
          await writer.apply(collection, collectionOf(collection, generation), operations, signal)
        } catch (error) {
          const isOwn = !isAlwaysThere(collection)
          if (generation === undefined || isOwn || !(error instanceof CollectionMissing)) throw error
          throw noGeneration(generation)
        }
      }),
    forgetDeletions: (olderThanMs) =>
      run(async () => {
        for (const collection of await present()) {
          await writer.forgetDeletions(collection, olderThanMs)
          await writer.completePoints(collection)
        }
      }),
    search: (collection, query) => read(collection, noHits(), () => reader.search(collection, query)),
    scroll: (collection, query) => read(collection, noPoints(), () => reader.scroll(collection, query)),
    count: (collection, filter) => read(collection, 0, () => reader.count(collection, filter)),
    get: (collection, ids) => read(collection, [], () => reader.get(collection, ids)),
    held: (collection, ids, { generation } = {}) => {
      const work = () => heldReader.held(collection, collectionOf(collection, generation), ids)
      return generation === undefined ? read(collection, [], work) : readIn(collection, generation, [], work)
    },
    expired: (collection, limit) => read(collection, [], () => heldReader.expired(collection, limit)),
    stats: () => run(async () => statsOf(await present(), (name) => reader.stats(name, dimension))),
    embedders: (collection, filter) => read(collection, [], () => reader.embedders(collection, filter)),
    indexPayload: (collection, key, type) =>
      write(collection, undefined, () => generations.indexPayload(collection, key, type)),
    async dropCollection(collection) {
      demandName(collection)
      if (!isAlwaysThere(collection)) return run(() => generations.dropCollection(collection))
      throw new AppError('conflict', `The collection "${collection}" is always there.`)
    },
    liveGeneration: () => run(() => generations.live()),
    createGeneration: (generation) => run(() => generations.create(generation)),
    promoteGeneration: (generation) => run(() => generations.promote(generation)),
    dropGeneration: (generation) => run(() => generations.drop(generation)),
    ping: (limitMs = pingTimeoutMs) =>
      withTimeout(
        run(async () => {
          const [collection] = collections as [string]
          await Promise.all([call('ping', 'GET', `${pathOf(collection)}/exists`), grpc?.ping(collection)])
        }),
        limitMs,
        vectorsUnavailable,
      ),
    async close() {
      readiness.close()
      grpc?.close()
      await calls.close()
    },
  }
}

/** Loads its packages, which take 14 MB; null where it is not wanted. */
async function openGrpc({ grpcUrl, apiKey, log }: QdrantVectorsOptions, limitMs: number) {
  if (grpcUrl === undefined) return null
  const { openGrpc } = await import('./qdrant/grpc.ts')
  return openGrpc({ url: grpcUrl, apiKey, limitMs, log })
}

function byCount(few: SendPoints, many: SendPoints, manyMin: number): SendPoints {
  return (name, points, signal) => (points.length < manyMin ? few : many)(name, points, signal)
}

/** A few collections at a time. */
async function statsOf(names: string[], read: (name: string) => Promise<CollectionStats>) {
  const found: CollectionStats[] = []
  for (let from = 0; from < names.length; from += statsAtOnce) {
    found.push(...(await Promise.all(names.slice(from, from + statsAtOnce).map(read))))
  }
  return found
}
