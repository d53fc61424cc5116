/** GET /v1/operations/{operation_id}. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { problemResponses } from '#runtime/http.ts'
import type { Gateway } from '../gateway.ts'
import { closedObject } from '../schemas.ts'

const params = closedObject({ operation_id: Type.String({ minLength: 1 }) })

const answer = Type.Object(
  {
    operation_id: Type.String(),
    status: Type.Union([Type.Literal('accepted'), Type.Literal('applied'), Type.Literal('failed')]),
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
      schema: {
        tags: ['platform'],
        security: [{ bearer: [] }],
        summary: 'How far an upsert or delete is',
        params,
        response: {
          200: answer,
          ...problemResponses({
            400: 'The id is not one of this platform.',
            401: 'No valid gateway key was sent.',
            404: 'The log was replaced after this operation.',
          }),
        },
      },
    },
    async (request) => {
      const { operation_id } = request.params
      const state = await gateway.operations.state(gateway.operations.parse(operation_id))
      return { operation_id, ...state }
    },
  )
}
