/** GET /api/v1/requests/{id}: one request, operation, run, dispatch or delivery, followed through HTTP, log, worker and effect. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { notedChange } from '#operations/audit.ts'
import { recordsMax } from '#operations/follow/follow-records.ts'
import { followRequestOperation } from '#operations/follow/follow-request.ts'
import { attempt } from '#operations/webhooks/attempts.ts'
import { closed } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { orNull, time } from '../schemas.ts'

/** Each reads much of the log. */
const atOnceMax = 2

const followed = Type.Object(
  {
    id: Type.String(),
    kind: Type.Enum(['request', 'operation', 'run', 'dispatch', 'delivery', 'event'], {
      type: 'string',
      description: 'What the id names; `request` also where nothing has it.',
    }),
    request_id: orNull(Type.String(), 'X-Request-Id of the call that began it; null: not known.'),
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
    changes: Type.Array(notedChange, { description: 'What it changed of the platform.' }),
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
            reason: orNull(Type.String(), 'Why it is a dead letter.'),
          }),
          { description: 'What each group of readers made of it.' },
        ),
      }),
      { description: 'In the log, the oldest first.' },
    ),
    records_found: Type.Integer({ description: 'All of them; of many only the first are in `records`.' }),
    runs: Type.Array(
      Type.Object({
        run_id: Type.String(),
        agent: Type.String(),
        status: Type.String(),
        trigger: Type.String(),
        error: orNull(Type.String(), 'The code of why it failed.'),
        created_at: time,
        ended_at: orNull(time),
      }),
      { description: 'That it started; of a run all that joined it.' },
    ),
    dispatch: orNull(Type.Object({ goal_id: Type.Integer(), status: Type.String() })),
    deliveries: Type.Array(
      Type.Object({
        target: Type.String(),
        sequence: Type.Integer({ description: 'X-Sequence.' }),
        event: orNull(Type.String(), 'null: the log holds the delivery no longer.'),
        attempts: Type.Array(attempt, { description: 'The oldest first; of many the newest.' }),
      }),
      { description: 'To webhook targets, and how the couriers fared with them.' },
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
      pattern: '^[\\x21-\\x7e]{1,16000}$',
      description:
        'X-Request-Id of an answer, an operation_id, a run id, the number of a dispatch (its goal), `<target>/<X-Sequence>`, webhook-id or X-Idempotency-Key of a delivery, or the event id of a record.',
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
        summary:
          'One request, operation, run, dispatch or delivery, followed through HTTP, log, worker and effect',
        description: `Reads at most ${recordsMax} records, the newest of each partition. An id that nothing has is no fault: its lists are empty.`,
        params,
        response: { 200: followed },
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
        return operate(context, request, followRequestOperation, request.params)
      } finally {
        running -= 1
      }
    },
  )
}
