/** DELETE /v1/vectors/delete. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { recordHeaders } from '#runtime/http/app.ts'
import { isReserved, reservedId } from '#services/access/audit/notes.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import { requireCollection } from '../../accept/point.ts'
import { newOperationNumber } from '../../read/operations/operations.ts'
import type { Gateway } from '../gateway.ts'
import { acceptedOperation, closedObject, collection, pointId, waitQuery, writeProblems } from '../schemas.ts'
import { acceptPoints } from './accept.ts'

const idsMax = 1_000
const body = closedObject(
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
        body,
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
