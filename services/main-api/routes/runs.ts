/** /api/v1/runs and /api/v1/dispatches: messages to agents, with the bodies and rules of the run gateway. */

import type { FastifyInstance } from 'fastify'
import { registerRunRoutes } from '#operations/run-routes.ts'
import { answer, enveloped } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'

export function registerRunRecords(scope: FastifyInstance, { context, runs, streams }: MainApi): void {
  registerRunRoutes(scope, {
    followed: runs,
    streams,
    surface: { prefix: '/api/v1', mark: 'Fleet', schemaOf: enveloped, answer },
    operate: (request, operation) => operate(context, request, operation, {}),
  })
}
