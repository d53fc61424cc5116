/** The run gateway as a service: messages to agents over HTTP. */

import { Type } from 'typebox'
import { defineIngress } from '#runtime/start/service.ts'
import { tokenSettings } from '#services/access/provider/provider.ts'
import { keysAtHand, secretSettings } from '#services/access/secrets/secrets.ts'
import { loadNodes, nodeSettings } from '../nodes/nodes.ts'

const config = Type.Object({
  ...secretSettings.properties,
  ...tokenSettings.properties,
  ...nodeSettings.properties,
})

export const runGateway = defineIngress({
  name: 'run-gateway',
  purpose:
    'serves /<agent>/run and /dispatch: messages to one agent or to all, their runs, and events as they come',
  needs: ['eventLog', 'relational', 'identity'],
  config,
  check(env) {
    keysAtHand(env)
    loadNodes(env)
  },
  address: { name: 'agent_gateway_url', portVariable: 'RUN_GATEWAY_PORT', port: 8_082 },
  load: async () => (await import('./routes.ts')).registerRunGateway,
})
