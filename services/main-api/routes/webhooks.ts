/** /api/v1/webhooks: the targets as they are now, and their newest attempts. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { attemptsMax, listAttemptsOperation } from '#operations/webhooks/attempts.ts'
import { skipHeadOperation } from '#operations/webhooks/skip.ts'
import { readTargetSettings } from '#operations/webhooks/target-settings.ts'
import { testTargetOperation } from '#operations/webhooks/test-event.ts'
import { closed } from '../envelope.ts'
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
  head: orNull(
    Type.Object({
      sequence: Type.Integer(),
      event: Type.String(),
      agent: Type.String(),
      task_id: Type.String(),
      webhook_id: Type.String(),
      received_at: time,
      attempts: Type.Integer({ description: 'So far.' }),
    }),
    'The delivery that is being tried; those behind it wait for it.',
  ),
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
const settings = Type.Object(
  {
    url: Type.String({ description: 'Scheme and host: what follows may hold a token.' }),
    headers: Type.Array(Type.String(), { description: 'Their names.' }),
    signed: Type.Boolean(),
    events: orNull(Type.Array(Type.String()), 'null: all.'),
    agents: orNull(Type.Array(Type.String()), 'null: all.'),
    ordering: Type.String(),
    on_exhausted: Type.String(),
    retry: Type.Number(),
    backoff_ms: Type.Number(),
    hold_hours: Type.Number(),
  },
  { description: 'As the targets file has them, without its secrets.' },
)
const shownTarget = Type.Object(
  {
    target,
    settings: orNull(settings, 'null: this instance cannot read them, or the target is not in the file.'),
    as_of: time,
  },
  { title: 'WebhookTarget' },
)
const minutes = (description: string) =>
  Type.Array(Type.Integer(), { description: `${description}, minute by minute, the oldest first.` })
const bars = Type.Object(
  {
    targets: Type.Array(
      Type.Object({
        target: Type.String(),
        delivered: minutes('Attempts that were delivered'),
        retried: minutes('Attempts that failed and are repeated'),
        dead_letters: minutes('Deliveries that were given up'),
      }),
      { description: 'Those that had an attempt.' },
    ),
  },
  { title: 'WebhookBars' },
)
const sent = Type.Object(
  {
    target: Type.String(),
    sequence: Type.Integer(),
    event: Type.String(),
    idempotency_key: Type.String(),
  },
  { title: 'SentTestEvent' },
)
const skipped = Type.Object(
  {
    target: Type.String(),
    sequence: Type.Integer(),
    outcome: Type.Enum(['parked', 'delivered', 'waiting'], {
      type: 'string',
      description:
        'delivered: its last attempt was under way and succeeded. waiting: it is marked, and no courier has parked it yet.',
    }),
  },
  { title: 'SkippedHead' },
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
        response: { 200: targets },
      },
    },
    async () => {
      // Where the file lies is no matter of callers.
      const { file: _, ...listed } = await observed.targets.get()
      return listed
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
        response: { 200: attempts },
      },
    },
    async (request) => {
      const limit = numberUpTo(attemptsMax, 'limit', request.query.limit ?? '50')
      const args = { target: request.params.name, limit }
      return operate(context, request, listAttemptsOperation, args)
    },
  )
  registerOneTarget(scope, { context, observed })
}

function registerOneTarget(
  scope: FastifyInstance,
  { context, observed }: Pick<MainApi, 'context' | 'observed'>,
) {
  const routes = scope.withTypeProvider<TypeBoxTypeProvider>()
  routes.get(
    '/webhooks/targets/:name',
    {
      config: { problems: [...problems, 'not_found'] },
      schema: {
        operationId: 'showTarget',
        tags: ['webhooks'],
        summary: 'One webhook target: what waits for it, its head, and its settings without secrets',
        params,
        response: { 200: shownTarget },
      },
    },
    async ({ params: { name } }) => {
      const { targets: known, as_of } = await observed.targets.get()
      const found = known.find((one) => one.target === name)
      if (!found)
        throw new AppError('not_found', `No webhook target ${name.slice(0, 64).toWellFormed()} is known.`)
      return { target: found, settings: readTargetSettings(context.env, name), as_of }
    },
  )
  routes.get(
    '/webhooks/attempts',
    {
      config: { problems },
      schema: {
        operationId: 'showAttemptBars',
        tags: ['webhooks'],
        summary: 'The attempts of all targets over the last hour, minute by minute',
        response: { 200: bars },
      },
    },
    async () => ({ targets: await observed.attemptBars() }),
  )
  routes.post(
    '/webhooks/targets/:name/test',
    {
      config: { problems: [...problems, 'not_found', 'conflict'] },
      schema: {
        operationId: 'testTarget',
        tags: ['webhooks'],
        summary: 'Send a test event to one target',
        description:
          'An event that the target asks for, whose `result` says that it is a test. It is delivered like every other one, behind what waits.',
        params,
        response: { 202: sent },
      },
    },
    async (request, reply) => {
      reply.code(202)
      const args = { target: request.params.name }
      return operate(context, request, testTargetOperation, args)
    },
  )
  routes.post(
    '/webhooks/targets/:name/skip',
    {
      config: { problems: [...problems, 'not_found', 'conflict'] },
      schema: {
        operationId: 'skipHead',
        tags: ['webhooks'],
        summary: 'Give up the head of a target: it becomes a dead letter, and the next one is tried',
        params,
        response: { 200: skipped },
      },
    },
    (request) => operate(context, request, skipHeadOperation, { target: request.params.name }),
  )
}
