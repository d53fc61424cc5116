/** /api/v1/fleet_notes and /api/v1/goals: the notes and goals of the hub, with its bodies and rules. */

import type { FastifyInstance } from 'fastify'
import { registerHubRoutes } from '#operations/hub-routes.ts'
import { answer, enveloped } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'

export function registerHubRecords(scope: FastifyInstance, { context, feed, streams }: MainApi): void {
  const { relational, eventLog } = context.engines
  registerHubRoutes(scope, {
    relational,
    eventLog,
    feed,
    streams,
    log: context.log,
    surface: { prefix: '/api/v1', mark: 'Fleet', schemaOf: enveloped, answer },
    operate: (request, operation) => operate(context, request, operation, {}),
  })
}
