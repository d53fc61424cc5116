/** GET /v1/operations/{operation_id}. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { Gateway } from '../gateway.ts'
import { closedObject } from '../schemas.ts'

const params = closedObject({
  operation_id: Type.String({ minLength: 1, description: 'As upsert or delete answered it.' }),
})

const answer = Type.Object(
  {
    operation_id: Type.String(),
    status: Type.Enum(['accepted', 'applied', 'failed'], { type: 'string' }),
    error: Type.Optional(Type.String({ description: 'Why it failed.' })),
  },
  {
    title: 'Operation',
    description: 'How far the operation is.',
    examples: [{ operation_id: 'AZ8…', status: 'applied' }],
  },
)

export function registerOperations(scope: FastifyInstance, gateway: Gateway): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/operations/:operation_id',
    {
      config: { problems: ['invalid_operation_id', 'operation_not_found', 'log_unavailable'] },
      schema: {
        operationId: 'getOperation',
        tags: ['platform'],
        summary: 'How far an upsert or delete is',
        params,
        response: { 200: answer },
      },
    },
    async (request) => {
      const { operation_id } = request.params
      const state = await gateway.operations.state(gateway.operations.parse(operation_id))
      return { operation_id, ...state }
    },
  )
}
