/** /api/v1/fleet_notes, goals, runs and dispatches: the routes of their areas, with the audit of changes. */

import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { defineAction } from '#operations/action.ts'
import type { RunChange } from '#services/access/admin-audit/admin-audit.ts'
import { registerGoals } from '#services/records/api/goals.ts'
import { type HubParts, registerNotes } from '#services/records/api/notes.ts'
import type { RunParts } from '#services/runs/gateway/gateway.ts'
import { registerDispatchCreation, registerDispatches } from '#services/runs/gateway/routes/dispatches.ts'
import { registerRunCreation } from '#services/runs/gateway/routes/run.ts'
import { registerRuns } from '#services/runs/gateway/routes/runs.ts'
import type { MainApi } from '../main-api.ts'
import { type MainApiContext, operate } from '../operate.ts'

export async function registerAreas(
  scope: FastifyInstance,
  { context, feed, runs, streams }: MainApi,
): Promise<void> {
  const { relational } = context.engines
  const change = notedChange(context)
  const records: HubParts = { relational, feed, streams, change, log: context.log }
  const started: RunParts = { ...runs, streams, change }
  await scope.register(async (areas) => {
    ofTheFleet(areas)
    registerNotes(areas, records)
    registerGoals(areas, records)
    registerRuns(areas, started)
    registerDispatches(areas, started)
    registerRunCreation(areas, started)
    registerDispatchCreation(areas, started)
  })
}

/** operationIds are unique over all interfaces: `listNotes` of the hub is `listFleetNotes` here. */
function ofTheFleet(scope: FastifyInstance): void {
  scope.addHook('onRoute', (route) => {
    const { operationId } = route.schema ?? {}
    if (operationId)
      route.schema = { ...route.schema, operationId: operationId.replace(/^[a-z]+/, '$&Fleet') }
  })
}

const noArgs = Type.Object({})

/** What it notes wakes the outbox-publisher for the record, too. */
function notedChange(context: MainApiContext): RunChange {
  return (request, { action, target }, work) => {
    const change = defineAction({
      name: action,
      summary: action,
      args: noArgs,
      change: { action, target: () => target },
      run: (changing) => work(changing),
    })
    return operate(context, request, change, {})
  }
}
