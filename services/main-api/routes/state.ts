/** /api/v1/brain/state: the platform at a glance. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { MainApi } from '../main-api.ts'
import { orNull, time } from '../schemas.ts'

const counts = (description: string) => Type.Record(Type.String(), Type.Integer(), { description })

const brainState = Type.Object(
  {
    agents: Type.Array(
      Type.Object({
        uid: Type.String(),
        slug: Type.String(),
        name: Type.String(),
        role: Type.String(),
        node: orNull(
          Type.Object({
            status: Type.String({ description: '`up`, `down`, or `unknown` before its first probe.' }),
            last_seen: orNull(time, 'null: it has not answered yet.'),
          }),
          'The node that runs it; null where none is named.',
        ),
      }),
    ),
    collections: counts('Points of each collection.'),
    goals: counts('Goals by their status; a status that none has is absent.'),
    notes: Type.Integer({ description: 'Notes, archived ones included.' }),
    runs: counts(
      'Runs by their status; a status that none has is absent. Without reports to the orchestrator.',
    ),
    webhooks: Type.Record(
      Type.String(),
      Type.Object({
        lag: Type.Integer({ description: 'Accepted, not yet delivered or parked.' }),
        last_status: orNull(Type.Integer(), 'Of the last call; null: no answer, or no call yet.'),
      }),
    ),
    log: Type.Object({ groups: counts('Lag of each reader group.') }),
    as_of: time,
  },
  { title: 'BrainState' },
)

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
