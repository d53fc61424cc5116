/** GET /api/v1/requests/{id}: one request, followed through HTTP, the log and its readers. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { followRequestOperation, recordsMax } from '#operations/follow-request.ts'
import { answer, closed, enveloped } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { orNull, time } from '../schemas.ts'
import { action } from './audit.ts'

/** Each reads much of the log. */
const atOnceMax = 2

const followed = Type.Object(
  {
    request_id: Type.String(),
    calls: Type.Array(
      Type.Object({
        agent: orNull(Type.String()),
        operation: Type.String(),
        collection: orNull(Type.String()),
        outcome: Type.String(),
        status_code: orNull(Type.Integer()),
        took_ms: orNull(Type.Number()),
        occurred_at: Type.String(),
      }),
      { description: 'Of the vector gateway, from their audit notes, which come a moment later.' },
    ),
    changes: Type.Array(action, { description: 'What it changed of the platform.' }),
    records: Type.Array(
      Type.Object({
        topic: Type.String(),
        partition: Type.Integer(),
        offset: Type.Integer(),
        timestamp: time,
        key: orNull(Type.String()),
        agent: orNull(Type.String()),
        groups: Type.Array(
          Type.Object({
            group: Type.String(),
            state: Type.Enum(['handled', 'waiting', 'dead_letter'], { type: 'string' }),
          }),
          { description: 'What each group of readers made of it.' },
        ),
      }),
      { description: 'In the log, the oldest first.' },
    ),
    searched: Type.Object({
      around: orNull(
        time,
        'When the request was, as far as its id or its calls say; null: not known. Changes are looked for a minute before and after.',
      ),
      records: Type.Integer({ description: 'Records of the log that were read.' }),
      complete: Type.Boolean({
        description: `False: there were more than ${recordsMax} records, and those of that time may not be among the newest.`,
      }),
    }),
  },
  { title: 'FollowedRequest' },
)

const params = Type.Object(
  {
    id: Type.String({
      pattern: '^[\\x21-\\x7e]{1,128}$',
      description: 'X-Request-Id of an answer.',
      examples: ['01932b3f-7b1c-7c3a-9d51-0f2f6f0f9a11'],
    }),
  },
  closed,
)

export function registerRequests(scope: FastifyInstance, { context }: MainApi): void {
  let running = 0
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/requests/:id',
    {
      config: {
        problems: [
          'forbidden',
          'log_unavailable',
          'relational_engine_unavailable',
          'vector_engine_unavailable',
        ],
      },
      schema: {
        operationId: 'followRequest',
        tags: ['audit'],
        summary: 'One request, followed through HTTP, the log and its readers',
        description: `Reads at most ${recordsMax} records, the newest of each partition. An id that nothing has is no fault: its lists are empty.`,
        params,
        response: { 200: enveloped(followed) },
      },
    },
    async (request) => {
      if (running >= atOnceMax) {
        throw new AppError('overloaded', 'Others are followed already; try again in a few seconds.', {
          retryAfter: 5,
        })
      }
      running += 1
      try {
        return answer(await operate(context, request, followRequestOperation, request.params))
      } finally {
        running -= 1
      }
    },
  )
}
