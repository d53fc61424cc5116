/**
 * /api/v1/brain/state, the platform at a glance, and of /api/v1/webhooks what no action is: one target with its
 * settings, and the last hour of all.
 */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { brainState } from '#operations/brain-state.ts'
import {
  listedTarget,
  readTargetSettings,
  targetInPath,
  targetProblems,
  targetSettings,
} from '#operations/webhooks/target-settings.ts'
import type { MainApi } from '../main-api.ts'
import { closed, orNull, time } from '../schemas.ts'

const shownTarget = Type.Object(
  {
    target: listedTarget,
    settings: orNull(
      targetSettings,
      'null: this instance cannot read them, or the target is not in the file.',
    ),
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
const params = Type.Object({ name: targetInPath }, closed)
const problems = ['forbidden', ...targetProblems] as const

export function registerWebhooks(scope: FastifyInstance, { context, observed }: MainApi): void {
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
}

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
