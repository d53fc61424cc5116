/** The webhook relay as a service: its configuration and its address. */

import { defineIngress } from '#runtime/start/service.ts'
import { checkTargetsFile, webhookSettings } from '../targets/targets-file.ts'

export const webhookRelay = defineIngress({
  name: 'webhook-relay',
  purpose:
    'accepts events of the agents on this machine and puts them into the log for each target that wants them',
  needs: ['eventLog', 'relational'],
  config: webhookSettings,
  check: checkTargetsFile,
  address: { name: 'webhook_url', loopbackVariable: 'WEBHOOK_GATEWAY', port: 9_090 },
  load: async () => (await import('./routes.ts')).registerRelay,
})
