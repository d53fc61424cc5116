/** Opens what the routes of the relay work with, and starts firing what arrives in fleet.events. */

import { describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import {
  targetsFileOf,
  type WatchedTargets,
  type WebhookSettings,
  watchTargets,
} from '../targets/targets-file.ts'
import { createDeliveries, type Deliveries } from './events/deliveries.ts'
import { startFleetEvents } from './events/fleet-events.ts'
import { type Assignments, openAssignments } from './targets/assignments.ts'
import { type Attempts, openAttempts } from './targets/attempts.ts'
import { createLag, type Lag } from './targets/lag.ts'
import { openProbes, type Probes } from './targets/probes.ts'

type RelayEngines = 'eventLog' | 'relational'
export type RelayContext = ServiceContext<RelayEngines, WebhookSettings>

export interface Relay extends Closeable {
  targets: Pick<WatchedTargets, 'current' | 'refused'>
  assignments: Assignments
  deliveries: Deliveries
  attempts: Attempts
  probes: Probes
  lag: Lag
}

/** Throws AppError `invalid_configuration` when the targets file is faulty. */
export async function openRelay(context: RelayContext): Promise<Relay> {
  const { engines, publisher, codec, log, metrics, env, locations } = context
  const { eventLog } = engines
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'service.close-failed'),
  )
  try {
    const targets = scope.add('targets file', watchTargets({ ...targetsFileOf(env), env, log }))
    const assignments = scope.add(
      'assignments',
      await openAssignments({ ...engines, locations, targets, log }),
    )
    const deliveries = createDeliveries(publisher, assignments)
    const attempts = scope.add(
      'attempts',
      await openAttempts({ engines, publisher, codec, log, metrics, targets }),
    )
    const probes = scope.add('probes', openProbes(targets))
    scope.add(
      'fleet events',
      await startFleetEvents(
        { eventLog, codec, publisher, log, metrics, tracing: context.tracing },
        { targets, deliveries },
      ),
    )
    const lag = createLag({ eventLog, locations, assignments })
    return { targets, assignments, deliveries, attempts, probes, lag, close: () => scope.close() }
  } catch (error) {
    await scope.close()
    throw error
  }
}
