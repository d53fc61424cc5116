/** The hub as a service: notes and goals over HTTP. */

import { Type } from 'typebox'
import { defineIngress } from '#runtime/start/service.ts'
import { tokenSettings } from '#services/access/provider/provider.ts'
import { keysAtHand, secretSettings } from '#services/access/secrets/secrets.ts'

const config = Type.Object({ ...secretSettings.properties, ...tokenSettings.properties })

export const hub = defineIngress({
  name: 'hub',
  purpose: 'serves /fleet_notes and /goals: notes in threads, goals, and their changes as they come',
  needs: ['eventLog', 'relational', 'identity'],
  config,
  check: (env) => void keysAtHand(env),
  address: { name: 'hub_url', portVariable: 'HUB_PORT', port: 8_083 },
  load: async () => (await import('./routes.ts')).registerHub,
})
