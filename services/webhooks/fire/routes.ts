/** The routes of the webhook relay, and what they work with. */

import type { FastifyInstance } from 'fastify'
import type { Closeable } from '#lib/resource.ts'
import { registerApiDescription } from '#runtime/http/app.ts'
import { keepSecretsOut } from './clean-answers.ts'
import { openRelay, type RelayContext } from './relay.ts'
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

export async function registerRelay(app: FastifyInstance, context: RelayContext): Promise<Closeable> {
  const relay = await openRelay(context)
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
