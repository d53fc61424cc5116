/** /api/v1/brain/state: the platform at a glance. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { brainState } from '#operations/brain-state.ts'
import type { MainApi } from '../main-api.ts'

export function registerState(scope: FastifyInstance, { observed }: MainApi): void {
  const routes = scope.withTypeProvider<TypeBoxTypeProvider>()
  routes.get(
    '/brain/state',
    {
      config: {
        problems: [
          'forbidden',
          'relational_engine_unavailable',
          'vector_engine_unavailable',
          'log_unavailable',
        ],
      },
      schema: {
        operationId: 'getBrainState',
        tags: ['state'],
        summary: 'The platform at a glance',
        description:
          'Read at most once a second; `as_of` says when. While an engine is away there is no state: 503 names it.',
        response: { 200: brainState },
      },
    },
    () => observed.brainState.get(),
  )
}
