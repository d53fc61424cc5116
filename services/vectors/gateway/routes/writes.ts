/** POST /v1/vectors/upsert, and how a write is accepted: publish, count the backlog, and answer 202, or when asked to wait 200 or 502. */

import type { IncomingMessage } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { vectorDimension } from '#engines/vectors/collections.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { detach } from '#lib/giving-way.ts'
import { recordHeaders } from '#runtime/http/app.ts'
import { parsedOnLoopBytesMax } from '#runtime/http/json-parser.ts'
import { joinBlocks, receiveBody } from '#runtime/http/receive-body.ts'
import { createValidator } from '#runtime/http/validation.ts'
import { headerNames, type Position, type Publisher } from '#runtime/publish/messages.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import {
  idempotencyHeaders,
  idempotencyProblems,
  idempotent,
  idOfSeed,
} from '#services/access/idempotency.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { type ByteBudget, createByteBudget, upsertBodyBytesMax } from '../../accept/byte-budget.ts'
import { embedTexts } from '../../accept/texts.ts'
import { type ParsedUpsert, parseUpsert, pointsMax } from '../../accept/upsert.ts'
import type { NamedCollection } from '../../collections/registry.ts'
import { newOperationNumber } from '../../read/operations/operations.ts'
import { operationHeader } from '../../write/failures.ts'
import type { Gateway } from '../gateway.ts'
import { acceptedOperation, closedObject, collection, point, waitQuery, writeProblems } from '../schemas.ts'

/** The schema describes the request; the type is the result of the scope's own parser. */
const upsertBody = Type.Unsafe<ParsedUpsert>(
  closedObject(
    { collection, points: Type.Array(point, { minItems: 1, maxItems: pointsMax }) },
    { title: 'UpsertRequest' },
  ),
)

/** The scope must be this route's own: it reads bodies in its own way. */
export function registerUpsert(scope: FastifyInstance, gateway: Gateway): void {
  const uploads = createByteBudget()
  parseUpsertsOnly(scope, gateway, uploads)
  const { embedder } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/upsert',
    {
      bodyLimit: upsertBodyBytesMax,
      onRequest: leastAccess('member'),
      config: {
        operation: 'upsert',
        problems: [...writeProblems, ...idempotencyProblems, 'embedder_unavailable', 'overloaded'],
      },
      // The parser has checked the body already, point by point.
      validatorCompiler: (route) => (route.httpPart === 'body' ? () => true : createValidator(route)),
      schema: {
        operationId: 'upsertPoints',
        tags: ['vectors'],
        summary: 'Write points',
        description:
          'Accepted points are in the log; they are applied in order. Not atomic: after a 503 repeat it. An id twice in ' +
          'one request: the last wins. A point has a vector, or a text that the platform embeds and keeps as `payload.text`; ' +
          'while the embedder is away nothing of a request with texts is written. With an Idempotency-Key header a repeated request gets the first answer again.',
        body: upsertBody,
        querystring: waitQuery,
        headers: idempotencyHeaders,
        response: { 200: acceptedOperation, 202: acceptedOperation },
      },
    },
    async (request, reply) => {
      const parsed = request.body
      const { ids, sent } = parsed
      const collection = await gateway.collections.require(parsed.collection)
      const publish = (headers: Record<string, string>) => {
        const records = { collection, ids, headers, embedder: embedder.space }
        return publishPoints(gateway.context.publisher, records, parsed)
      }
      const parts = { gateway, request, reply, collection, points: ids.length, sent, publish }
      return accept(parts, (publishAs) =>
        idempotent(gateway, request, reply, async (seed) => {
          await embedTexts(embedder, parsed, uploads.begin(callerOf(request).agentId))
          return publishAs(operationNumber(seed))
        }),
      )
    },
  )
}

/** Small bodies are parsed here, big ones in a thread; both by the same function. */
function parseUpsertsOnly(
  scope: FastifyInstance,
  gateway: Pick<Gateway, 'upsertThread'>,
  uploads: ByteBudget,
): void {
  scope.removeContentTypeParser('application/json')
  scope.addContentTypeParser(
    'application/json',
    async (request: FastifyRequest, payload: IncomingMessage) => {
      const upload = uploads.begin(callerOf(request).agentId)
      try {
        let bytes = 0
        const blocks = await receiveBody(payload, upsertBodyBytesMax, (more) => {
          upload.arrived(more)
          bytes += more
        })
        const hashed = request.headers['idempotency-key'] !== undefined
        const parsed =
          bytes > parsedOnLoopBytesMax
            ? await gateway.upsertThread.parse(blocks, hashed)
            : parseUpsert(joinBlocks(blocks), hashed)
        request.bodyHash = parsed.bodyHash === null ? null : Buffer.from(parsed.bodyHash, 'base64')
        return parsed
      } finally {
        upload.end()
      }
    },
  )
}

/** Under one Idempotency-Key the number stays the same, however often the request runs. */
function operationNumber(seed: string | undefined): string {
  if (seed === undefined) return newOperationNumber()
  return idOfSeed(seed, 'operation').replaceAll('-', '').slice(0, 16)
}

export interface Acceptance {
  gateway: Gateway
  request: FastifyRequest
  reply: FastifyReply
  collection: NamedCollection
  /** Points that count as waiting from the beginning; left out where `publish` finds them, which then reserves room for them. */
  points?: number
  /** Points or ids of the request; default: as many as were published. */
  sent?: number
  /** Resolves with the position of each record. */
  publish(headers: Record<string, string>, reserve: (points: number) => void): Promise<Position[]>
}

type Accepted = Static<typeof acceptedOperation>

/** Most requests have published their points by then. */
const patienceMs = 4

/**
 * Counts the backlog, notes the operation in the audit, and publishes its records under the number that `work` gives it.
 * Throws AppError `log_unavailable`, or `operation_failed` (502) when the caller waits and a point fails.
 */
export async function accept(
  { gateway, request, reply, collection, publish, ...given }: Acceptance,
  work: (publishAs: (operation: string) => Promise<Accepted>) => Promise<Accepted>,
): Promise<Accepted> {
  const { agentId } = callerOf(request)
  let reservation: ReturnType<Gateway['backlog']['reserve']> | undefined
  const reserve = (points: number) => {
    reservation = gateway.backlog.reserve(agentId, points)
  }
  if (given.points !== undefined) reserve(given.points)
  async function publishAs(operation: string): Promise<Accepted> {
    const isWaiting = (request.query as Static<typeof waitQuery>).wait === 'true'
    const own = {
      [operationHeader]: operation,
      [headerNames.agent]: agentId,
      ...(isWaiting ? { [headerNames.awaited]: '1' } : {}),
    }
    const positions = await publish({ ...recordHeaders(request), ...own }, reserve)
    reservation?.accepted(positions)
    const made = gateway.operations.of(operation, positions)
    const operation_id = gateway.operations.idOf(made)
    const state = isWaiting ? await gateway.operations.wait(made) : ({ status: 'accepted' } as const)
    if (state.status === 'failed') {
      throw new AppError('operation_failed', `The operation failed: ${state.error}`, { statusCode: 502 })
    }
    reply.code(state.status === 'applied' ? 200 : 202)
    const { sent = positions.length } = given
    return { operation_id, status: state.status, collection: collection.name, points: sent }
  }
  try {
    return await withAudit(gateway, request, reply, { collection: collection.name, patienceMs }, () =>
      work(publishAs),
    )
  } finally {
    // Points already in the log stay counted.
    reservation?.release()
  }
}

export const publishTimeoutMs = deadlines.request.pointsMs
/** Records that are encoded before other requests get a turn. */
const sliceMax = 100
const vectorBytes = vectorDimension * Float32Array.BYTES_PER_ELEMENT

type PointValues = Pick<ParsedUpsert, 'payloads' | 'vectors' | 'texts' | 'expiries'> | null

/**
 * `embedder` is the space that the vectors of texts are of. Resolves with the position of each record of vectors.commands; the memory of the vectors is given back then. In slices,
 * so that a thousand points never delay a search; the log's queues join them again. Throws AppError `log_unavailable`: some
 * may then be stored.
 */
export async function publishPoints(
  publisher: Pick<Publisher, 'publish'>,
  records: {
    collection: NamedCollection
    ids: readonly string[]
    headers: Record<string, string>
    /** For points with texts. */
    embedder?: string
  },
  points: PointValues,
): Promise<Position[]> {
  const { collection, ids, headers, embedder = null } = records
  const valueAt = (n: number) =>
    points && {
      vector: Buffer.from(points.vectors, n * vectorBytes, vectorBytes),
      payload: points.payloads[n]!,
      embedder: points.texts.has(n) ? embedder : null,
      making: collection.making,
      expires_at: points.expiries.get(n) ?? null,
    }
  const slices: Promise<Position[]>[] = []
  for (let from = 0; from < ids.length; from += sliceMax) {
    if (from > 0) await nextTurn()
    const messages = ids.slice(from, from + sliceMax).map((id, n) => {
      return { key: { collection: collection.stored, id }, value: valueAt(from + n), headers }
    })
    const slice = publisher.publish(vectorsCommands, messages, { timeoutMs: publishTimeoutMs })
    // Awaited below; a slice that fails before must not end the process.
    slice.catch(() => undefined)
    slices.push(slice)
  }
  const positions = (await Promise.all(slices)).flat()
  if (points) detach(new Uint8Array(points.vectors))
  return positions
}
