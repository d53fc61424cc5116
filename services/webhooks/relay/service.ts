/** The webhook relay as a service: its configuration, its address and its routes. */

import type { FastifyInstance } from 'fastify'
import type { Closeable } from '#lib/resource.ts'
import { registerApiDescription } from '#runtime/http.ts'
import { defineIngress } from '#runtime/service.ts'
import { checkTargetsFile, webhookSettings } from '../targets/settings.ts'
import { keepSecretsOut } from './clean-answers.ts'
import { openRelay, type RelayContext, type RelayEngines } from './relay.ts'
import { registerFire } from './routes/fire.ts'
import { registerHealth } from './routes/health.ts'

export const webhookRelay = defineIngress<RelayEngines, typeof webhookSettings>({
  name: 'webhook-relay',
  purpose:
    'accepts events of the agents on this machine and puts them into the log for each target that wants them',
  needs: ['eventLog', 'relational'],
  config: webhookSettings,
  check: checkTargetsFile,
  address: { name: 'webhook_url', loopbackVariable: 'WEBHOOK_GATEWAY', port: 9_090 },
  routes: (app, context) => registerRelay(app, context),
})

const prefix = '/api/v1/webhooks'

const description =
  'Events of agents on this machine, delivered to the targets of a YAML file: at least once, in order for each target, ' +
  'a slow target never in the way of another. The relay listens on the loopback alone and needs no credential. It keeps ' +
  'nothing: what it accepts is in the log, from which the courier delivers. Each target receives the event body as it was ' +
  'sent, by POST, with the headers of its entry and X-Idempotency-Key (<agent>-<task_id>-<event>), X-Sequence (rises for ' +
  'each target, not by one), X-Previous-Sequence, X-Attempt (from 1) and, with a signing_secret, the headers of Standard ' +
  'Webhooks. An answer of 2xx alone is success. GET /metrics has webhook_delivered_total{target,status} and ' +
  'webhook_latency_seconds{target} in Prometheus’ text format.'

async function registerRelay(app: FastifyInstance, context: RelayContext): Promise<Closeable> {
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
