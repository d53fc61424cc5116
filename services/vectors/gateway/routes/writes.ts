/** POST /v1/vectors/upsert and DELETE /v1/vectors/delete: publish, count the backlog, and answer 202, or when asked to wait 200 or 502. */

import type { IncomingMessage } from 'node:http'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { recordHeaders } from '#runtime/http/app.ts'
import { parsedOnLoopBytesMax } from '#runtime/http/json-parser.ts'
import { receiveBody } from '#runtime/http/receive-body.ts'
import { createValidator } from '#runtime/http/validation.ts'
import type { Position } from '#runtime/publish/messages.ts'
import { isReserved, reservedId } from '#services/access/audit/notes.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import {
  idempotencyHeaders,
  idempotencyProblems,
  idempotent,
  idOfSeed,
} from '#services/access/idempotency.ts'
import { upsertBodyBytesMax } from '../../accept/byte-budget.ts'
import { type ParsedUpsert, parseUpsert, pointsMax, requireCollection } from '../../accept/points.ts'
import type { Reservation } from '../../read/operations/operations.ts'
import { newOperationNumber } from '../../read/operations/operations.ts'
import type { Gateway } from '../gateway.ts'
import {
  acceptedOperation,
  closedObject,
  collection,
  point,
  pointId,
  waitQuery,
  writeProblems,
} from '../schemas.ts'

/** The schema describes the request; the type is the result of the scope's own parser. */
const upsertBody = Type.Unsafe<ParsedUpsert>(
  closedObject(
    { collection, points: Type.Array(point, { minItems: 1, maxItems: pointsMax }) },
    { title: 'UpsertRequest' },
  ),
)

/** The scope must be this route's own: it reads bodies in its own way. */
export function registerUpsert(scope: FastifyInstance, gateway: Gateway): void {
  parseUpsertsOnly(scope, gateway)
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/upsert',
    {
      bodyLimit: upsertBodyBytesMax,
      onRequest: leastAccess('member'),
      config: {
        operation: 'upsert',
        problems: [...writeProblems, ...idempotencyProblems],
      },
      // The parser has checked the body already, point by point.
      validatorCompiler: (route) => (route.httpPart === 'body' ? () => true : createValidator(route)),
      schema: {
        operationId: 'upsertPoints',
        tags: ['vectors'],
        summary: 'Write points',
        description:
          'Accepted points are in the log; they are applied in order. Not atomic: after a 503 repeat it. An id twice in ' +
          'one request: the last wins. With an Idempotency-Key header a repeated request gets the first answer again.',
        body: upsertBody,
        querystring: waitQuery,
        headers: idempotencyHeaders,
        response: { 200: acceptedOperation, 202: acceptedOperation },
      },
    },
    async (request, reply) => {
      const parsed = request.body
      const reservation = gateway.backlog.reserve(callerOf(request).agentId, parsed.ids.length)
      const upsert: Upsert = { gateway, request, reply, parsed, reservation }
      try {
        return await withAudit(gateway, request, reply, { collection: parsed.collection }, () =>
          idempotent(gateway, request, reply, (seed) => accept(upsert, operationNumber(seed))),
        )
      } finally {
        // Points already in the log stay counted.
        reservation.release()
      }
    },
  )
}

/** Small bodies are parsed here, big ones in a thread; both by the same function. */
function parseUpsertsOnly(
  scope: FastifyInstance,
  gateway: Pick<Gateway, 'upsertThread' | 'receiving'>,
): void {
  scope.removeContentTypeParser('application/json')
  scope.addContentTypeParser(
    'application/json',
    async (request: FastifyRequest, payload: IncomingMessage) => {
      const upload = gateway.receiving.begin(callerOf(request).agentId)
      try {
        const bytes = await receiveBody(payload, upsertBodyBytesMax, upload.arrived)
        const hashed = request.headers['idempotency-key'] !== undefined
        const parsed =
          bytes.length > parsedOnLoopBytesMax
            ? await gateway.upsertThread.parse(bytes, hashed)
            : parseUpsert(bytes, hashed)
        request.bodyHash = parsed.bodyHash === null ? null : Buffer.from(parsed.bodyHash, 'base64')
        return parsed
      } finally {
        upload.end()
      }
    },
  )
}

interface Upsert {
  gateway: Gateway
  request: FastifyRequest
  reply: FastifyReply
  parsed: ParsedUpsert
  reservation: Reservation
}

function accept(upsert: Upsert, operation: string): Promise<AcceptedAnswer> {
  const { gateway, request, reply, parsed, reservation } = upsert
  const { agentId } = callerOf(request)
  return acceptPoints(gateway, reply, {
    collection: parsed.collection,
    points: parsed.sent,
    operation,
    wait: (request.query as { wait?: string }).wait === 'true',
    reservation,
    publish: () => gateway.points.upsert(parsed, { operation, agentId, request: recordHeaders(request) }),
  })
}

/** Under one Idempotency-Key the number stays the same, however often the request runs. */
function operationNumber(seed: string | undefined): string {
  if (seed === undefined) return newOperationNumber()
  return idOfSeed(seed, 'operation').replaceAll('-', '').slice(0, 16)
}

const idsMax = 1_000
const deleteBody = closedObject(
  { collection, ids: Type.Array(pointId, { minItems: 1, maxItems: idsMax }) },
  { title: 'DeleteRequest' },
)

export function registerDelete(scope: FastifyInstance, gateway: Gateway): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().delete(
    '/delete',
    {
      onRequest: leastAccess('member'),
      config: { operation: 'delete', problems: writeProblems },
      schema: {
        operationId: 'deletePoints',
        tags: ['vectors'],
        summary: 'Delete points by id',
        description: 'Deleting a point that is not there is no fault.',
        body: deleteBody,
        querystring: waitQuery,
        response: { 200: acceptedOperation, 202: acceptedOperation },
      },
    },
    async (request, reply) => {
      const name = requireCollection(request.body.collection)
      const ids = [...new Set(request.body.ids)]
      if (ids.some((id) => isReserved(name, id))) throw reservedId()
      const { agentId } = callerOf(request)
      const reservation = gateway.backlog.reserve(agentId, ids.length)
      const operation = newOperationNumber()
      const headers = { operation, agentId, request: recordHeaders(request) }
      try {
        return await withAudit(gateway, request, reply, { collection: name }, () =>
          acceptPoints(gateway, reply, {
            collection: name,
            points: request.body.ids.length,
            operation,
            wait: request.query.wait === 'true',
            reservation,
            publish: () => gateway.points.delete(name, ids, headers),
          }),
        )
      } finally {
        // Points already in the log stay counted.
        reservation.release()
      }
    },
  )
}

interface Acceptance {
  collection: string
  /** Points or ids of the request. */
  points: number
  operation: string
  wait: boolean
  reservation: Reservation
  publish(): Promise<Position[]>
}

interface AcceptedAnswer {
  operation_id: string
  status: 'accepted' | 'applied'
  collection: string
  points: number
}

/** Throws AppError `log_unavailable`, or `operation_failed` (502) when the caller waits and a point fails. */
async function acceptPoints(
  gateway: Pick<Gateway, 'operations'>,
  reply: FastifyReply,
  { collection, points, operation, wait, reservation, publish }: Acceptance,
): Promise<AcceptedAnswer> {
  const positions = await publish()
  reservation.accepted(positions)
  const made = gateway.operations.of(operation, positions)
  const operation_id = gateway.operations.idOf(made)
  const state = wait ? await gateway.operations.wait(made) : ({ status: 'accepted' } as const)
  if (state.status === 'failed') {
    throw new AppError('operation_failed', `The operation failed: ${state.error}`, { statusCode: 502 })
  }
  reply.code(state.status === 'applied' ? 200 : 202)
  return { operation_id, status: state.status, collection, points }
}
