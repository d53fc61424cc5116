/** The webhook relay: events of agents on this machine into the log, one delivery for each target that wants them. */

import { defineIngress } from '#runtime/service.ts'
import { checkTargetsFile, webhookSettings } from '../targets/settings.ts'
import type { RelayContext, RelayEngines } from './relay.ts'
import { registerRelay } from './routes.ts'

export const webhookRelay = defineIngress<RelayEngines, typeof webhookSettings>({
  name: 'webhook-relay',
  purpose:
    'accepts events of the agents on this machine and puts them into the log for each target that wants them',
  needs: ['eventLog', 'relational'],
  config: webhookSettings,
  check: checkTargetsFile,
  address: { name: 'webhook_url', loopbackVariable: 'WEBHOOK_GATEWAY', port: 9_090 },
  routes: (app, context) => registerRelay(app, context as RelayContext),
})
