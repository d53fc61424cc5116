/** /api/v1/webhooks: the targets as they are now, and their newest attempts. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { attemptsMax, listAttemptsOperation } from '#operations/webhooks/attempts.ts'
import { answer, closed, enveloped } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { name, numberUpTo, orNull, time, wholeNumber } from '../schemas.ts'

const target = Type.Object({
  target: Type.String(),
  state: Type.Enum(['idle', 'delivering', 'retrying', 'outage', 'removed', 'new'], { type: 'string' }),
  partition: orNull(Type.Integer()),
  lag: Type.Integer({ description: 'Accepted, not yet delivered or parked.' }),
  head_sequence: orNull(Type.Integer(), 'Of the oldest that waits.'),
  head_age_s: orNull(Type.Number()),
  breaker: Type.String(),
  next_attempt_at: orNull(time),
  last_status: orNull(Type.Integer()),
  last_fault: orNull(Type.String()),
  last_sequence: orNull(Type.Integer()),
  last_attempt: orNull(Type.Integer()),
  last_at: orNull(time),
})
const targets = Type.Object(
  {
    targets: Type.Array(target),
    couriers: Type.Integer({ description: 'That are running.' }),
    as_of: time,
  },
  { title: 'WebhookTargets' },
)
export const attempt = Type.Object({
  target: Type.String(),
  kind: Type.String({
    description: '`success`, `retry`, `dead_letter`; `state` is a report without a call.',
  }),
  sequence: orNull(Type.Integer()),
  attempt: orNull(Type.Integer()),
  status: orNull(Type.Integer()),
  fault: orNull(Type.String()),
  took_ms: orNull(Type.Number()),
  breaker: Type.String(),
  next_attempt_at: orNull(time),
  occurred_at: time,
})
const attempts = Type.Object(
  { attempts: Type.Array(attempt, { description: 'The newest first.' }) },
  { title: 'WebhookAttempts' },
)
const params = Type.Object({ name: name('A target.', 'ops-channel', 200) }, closed)
const query = Type.Object(
  { limit: Type.Optional(wholeNumber(`1 to ${attemptsMax}; by default 50.`, '20')) },
  closed,
)
const problems = ['forbidden', 'log_unavailable', 'relational_engine_unavailable'] as const

export function registerWebhooks(scope: FastifyInstance, { context, observed }: MainApi): void {
  const routes = scope.withTypeProvider<TypeBoxTypeProvider>()
  routes.get(
    '/webhooks/targets',
    {
      config: { problems },
      schema: {
        operationId: 'listTargets',
        tags: ['webhooks'],
        summary: 'All webhook targets: what waits for them, and how their last attempt ended',
        response: { 200: enveloped(targets) },
      },
    },
    async () => {
      // Where the file lies is no matter of callers.
      const { file: _, ...listed } = await observed.targets.get()
      return answer(listed)
    },
  )
  routes.get(
    '/webhooks/targets/:name/attempts',
    {
      config: { problems: [...problems, 'not_found'] },
      schema: {
        operationId: 'listAttempts',
        tags: ['webhooks'],
        summary: 'The newest attempts of a target, of the last 7 days',
        params,
        querystring: query,
        response: { 200: enveloped(attempts) },
      },
    },
    async (request) => {
      const limit = numberUpTo(attemptsMax, 'limit', request.query.limit ?? '50')
      const args = { target: request.params.name, limit }
      return answer(await operate(context, request, listAttemptsOperation, args))
    },
  )
}
