/** POST /v1/vectors/upsert. */

import type { IncomingMessage } from 'node:http'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { recordHeaders } from '#runtime/http/app.ts'
import { parsedOnLoopBytesMax } from '#runtime/http/json-parser.ts'
import { receiveBody } from '#runtime/http/receive-body.ts'
import { createValidator } from '#runtime/http/validation.ts'
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
import { type ParsedUpsert, parseUpsert, pointsMax } from '../../accept/parse-upsert.ts'
import type { Reservation } from '../../read/operations/backlog.ts'
import { newOperationNumber } from '../../read/operations/operations.ts'
import type { Gateway } from '../gateway.ts'
import { acceptedOperation, closedObject, collection, point, waitQuery, writeProblems } from '../schemas.ts'
import { type AcceptedAnswer, acceptPoints } from './accept.ts'

/** The schema describes the request; the type is the result of the scope's own parser. */
const body = Type.Unsafe<ParsedUpsert>(
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
        body,
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
