/** The routes of the webhook relay, and what they work with; it also fires what arrives in fleet.events. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Closeable, openTogether } from '#lib/resource.ts'
import { registerApiDescription } from '#runtime/http/app.ts'
import { requestIdOf, traceparentOf } from '#runtime/http/request-headers.ts'
import { forgetSpan } from '#runtime/observe/tracing/tracing.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { containsSecret, redact } from '#services/access/secrets/redact.ts'
import { openAttempts } from '../attempts/read-attempts.ts'
import { openAssignments } from '../targets/assignment.ts'
import { targetsFileOf, type WebhookSettings, watchTargets } from '../targets/targets-file.ts'
import { createDeliveries, startFleetEvents } from './events/deliveries.ts'
import { openProbes } from './probes.ts'
import { registerFire } from './routes/fire.ts'
import { registerHealth } from './routes/health.ts'

const prefix = '/api/v1/webhooks'

const description =
  'Events of agents on this machine, delivered to the targets of a YAML file: at least once, in order for each target, ' +
  'a slow target never in the way of another. The relay listens on the loopback alone and needs no credential. It keeps ' +
  'nothing: what it accepts is in the log, from which the courier delivers. Each target receives the event body as it was ' +
  'sent, by POST, with the headers of its entry and X-Idempotency-Key (<agent>-<task_id>-<event>), X-Sequence (rises for ' +
  'each target, not by one), X-Previous-Sequence, X-Attempt (from 1) and, with a signing_secret, the headers of Standard ' +
  'Webhooks. An answer of 2xx alone is success. GET /metrics has webhook_delivered_total{target,status} and ' +
  'webhook_latency_seconds{target} in Prometheus’ text format.'

type RelayContext = ServiceContext<'eventLog' | 'relational', WebhookSettings>

/** Throws AppError `invalid_configuration` when the targets file is faulty. */
export async function registerRelay(app: FastifyInstance, context: RelayContext): Promise<Closeable> {
  const { engines, publisher, codec, log, metrics, env, locations, tracing } = context
  const { eventLog } = engines
  const relay = await openTogether(log, async (scope) => {
    const targets = scope.add('targets file', watchTargets({ ...targetsFileOf(env), env, log }))
    const assignments = scope.add(
      'assignments',
      await openAssignments({ ...engines, locations, targets, log }),
    )
    const deliveries = createDeliveries(publisher, assignments)
    const attempts = scope.add(
      'attempts',
      await openAttempts({ eventLog, publisher, codec, log, metrics, targets }),
    )
    const probes = scope.add('probes', openProbes(targets))
    const consuming = { eventLog, codec, publisher, log, metrics, tracing }
    scope.add('fleet events', await startFleetEvents(consuming, { targets, deliveries }))
    return { eventLog, locations, targets, assignments, deliveries, attempts, probes }
  })
  keepSecretsOut(app, () => relay.targets.current().secrets)
  await registerApiDescription(app, {
    prefix,
    title: 'Flotilla webhook relay',
    version: '1',
    description,
    tags: [
      { name: 'webhooks', description: 'Firing events' },
      { name: 'platform', description: 'Health of the targets' },
    ],
  })
  registerHealth(app, relay)
  await app.register(async (scope) => registerFire(scope, relay), { prefix })
  return relay
}

/**
 * Keeps secrets of the targets file out of what is written of a request. Must be called before routes are added: an id of the caller that holds a secret is replaced before anything is logged or
 * published under it; texts of a refusal, which may name what the caller sent, lose theirs.
 */
export function keepSecretsOut(app: FastifyInstance, secrets: () => readonly string[]): void {
  const replaceIds = (request: FastifyRequest, reply: FastifyReply) => {
    if (containsSecret(request.id, secrets())) {
      request.id = requestIdOf({ headers: {} })
      reply.header('x-request-id', request.id)
    }
    if (containsSecret(request.traceparent, secrets())) {
      // Its span belongs to the trace that the caller named.
      if (request.span) forgetSpan(request.span, 'always')
      request.traceparent = traceparentOf(undefined)
      reply.header('traceparent', request.traceparent)
    }
  }
  app.addHook('onRequest', (request, reply, done) => {
    replaceIds(request, reply)
    done()
  })
  // A request that an earlier hook refused comes here alone; its line is logged afterwards.
  app.addHook('onSend', (request, reply, payload, done) => {
    replaceIds(request, reply)
    const isRefusal = reply.statusCode >= 400 && typeof payload === 'string'
    const isClean = !isRefusal || !containsSecret(payload, secrets())
    done(null, isClean ? payload : JSON.stringify(cleaned(JSON.parse(payload), secrets())))
  })
}

/** Every text in it, without secrets. */
function cleaned(value: unknown, secrets: readonly string[]): unknown {
  if (typeof value === 'string') return redact(value, secrets)
  if (Array.isArray(value)) return value.map((one) => cleaned(one, secrets))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cleaned(one, secrets)]))
}
