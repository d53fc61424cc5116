/**
 * Writes points to Qdrant over gRPC, where vectors travel as the bytes that they have in memory. The messages are those of Qdrant's
 * own client. The connection is not: that client cannot close one, and does not notice a silent one.
 */

import { create } from '@bufbuild/protobuf'
import { type Client, createClient } from '@connectrpc/connect'
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node'
import {
  ConnectErrorCode as Code,
  ConnectError,
  FilterSchema,
  file_qdrant,
  PointsUpdateOperation_PointStructListSchema,
  type QdrantClient,
} from '@qdrant/js-client-grpc'
import { deadlines } from '#lib/deadlines.ts'
import { createAttempts, type QdrantLog, Refused } from './attempts.ts'
import { encodePoint } from './grpc-point.ts'
import type { QdrantPoint, SendPoints } from './writer.ts'

const { vectorPingAfterMs, vectorPingMs } = deadlines.engine

interface GrpcOptions {
  /** http(s)://host:port. */
  url: string
  apiKey: string | undefined
  /** Time limit of each attempt, ms. */
  limitMs: number
  log: QdrantLog
}

type PointsClient = Extract<ReturnType<QdrantClient['api']>, Record<'updateBatch', unknown>>
type CallOptions = Parameters<PointsClient['get']>[1]

/** Its file alone is not among the client's exports. */
const pointsService = file_qdrant.dependencies
  .flatMap(({ services }) => services)
  .find(({ typeName }) => typeName === 'qdrant.Points')!

/** One connection, made by the first call and made again when it breaks. The key goes into a header and nowhere else. */
export function openGrpc({ url, apiKey, limitMs, log }: GrpcOptions) {
  const sessionManager = new Http2SessionManager(url, {
    connectTimeoutMs: vectorPingAfterMs,
    pingIntervalMs: vectorPingAfterMs,
    pingTimeoutMs: vectorPingMs,
  })
  const transport = createGrpcTransport({ baseUrl: url, sessionManager, acceptCompression: [] })
  const points = createClient(pointsService, transport) as Client<typeof pointsService> & PointsClient
  const headers = apiKey ? { 'api-key': apiKey } : {}
  const closing = new AbortController()
  const attempt = createAttempts({ log, setting: 'QDRANT_GRPC_URL', isBrokenConnection })
  const call = (what: string, signal: AbortSignal | undefined, send: (options: CallOptions) => unknown) => {
    const signals = [closing.signal, ...(signal ? [signal] : [])]
    return attempt({ what, limitMs, signal: AbortSignal.any(signals) }, async (ends) => {
      // A call that begins after the end would make a connection.
      ends.throwIfAborted()
      try {
        await send({ signal: ends, headers })
      } catch (error) {
        throw refusalIn(error) ?? error
      }
    })
  }
  const send: SendPoints = (collectionName, some, signal) => {
    const operations = [{ operation: { case: 'upsert', value: upsertOf(some) } } as const]
    const request = { collectionName, wait: true, operations }
    return call('upsert by gRPC', signal, (options) => points.updateBatch(request, options))
  }
  return {
    send,
    /** Reads nothing of a collection that is there. */
    ping: (collectionName: string) =>
      call('ping by gRPC', undefined, (options) => points.get({ collectionName }, options)),
    close(): void {
      closing.abort()
      sessionManager.abort()
    },
  }
}

/** The server closed the connection, also while a stream was open, or no server answers a ping. */
function isBrokenConnection(error: unknown): boolean {
  if (!(error instanceof ConnectError)) return false
  return error.code === Code.Aborted || error.code === Code.Canceled || error.code === Code.Unavailable
}

/** Codes of gRPC that Qdrant answers with, as the statuses that it answers with over REST. */
const statuses: ReadonlyMap<Code, number> = new Map([
  [Code.InvalidArgument, 400],
  [Code.Unauthenticated, 401],
  [Code.PermissionDenied, 403],
  [Code.NotFound, 404],
  [Code.AlreadyExists, 409],
  [Code.OutOfRange, 413],
])

function refusalIn(error: unknown): Refused | null {
  if (!(error instanceof ConnectError)) return null
  const status = statuses.get(error.code)
  return status === undefined ? null : new Refused(status, error.rawMessage)
}

/** Points are encoded here, and not described to the client: see encodePoint. */
function upsertOf(points: readonly QdrantPoint[]) {
  const list = create(PointsUpdateOperation_PointStructListSchema, { updateFilter: olderThan(points) })
  list.$unknown = points.map(encodePoint)
  return list
}

/** As the writer's `olderThan` says it over REST. */
function olderThan(points: readonly QdrantPoint[]) {
  const { epoch } = points[0]!.payload
  const field = <T extends object>(key: string, is: T) => ({
    conditionOneOf: { case: 'field', value: { key, ...is } } as const,
  })
  const filter = <T extends object>(value: T) => ({ conditionOneOf: { case: 'filter', value } as const })
  const hasId = (value: string) => {
    const ids = [{ pointIdOptions: { case: 'uuid', value } as const }]
    return { conditionOneOf: { case: 'hasId' as const, value: { hasId: ids } } }
  }
  const own = points.map(({ id, payload: { offset } }) =>
    filter({ must: [hasId(id), field('offset', { range: { lt: offset } })] }),
  )
  const isEpoch = { match: { matchValue: { case: 'integer', value: BigInt(epoch) } as const } }
  return create(FilterSchema, {
    should: [
      { conditionOneOf: { case: 'isEmpty', value: { key: 'offset' } } },
      field('epoch', { range: { lt: epoch } }),
      filter({ must: [field('epoch', isEpoch), filter({ should: own })] }),
    ],
  })
}
