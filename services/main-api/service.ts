/** The main API: agents trade their keys for tokens, and whoever has a token manages the platform. */

import { Type } from 'typebox'
import { identityExchangeUrl, identitySettings } from '#engines/identity/settings.ts'
import { loadConfig } from '#lib/config.ts'
import { volumeSettings } from '#operations/agents/volumes.ts'
import { defineIngress } from '#runtime/start/service.ts'
import { checkPeopleSettings, peopleSettings } from '#services/access/people/settings.ts'
import { tokenSettings } from '#services/access/provider/provider.ts'
import { keysAtHand, secretSettings } from '#services/access/secrets/secrets.ts'
import { loadNodes, nodeSettings } from '#services/runs/nodes/nodes.ts'

const config = Type.Object({
  ...secretSettings.properties,
  ...tokenSettings.properties,
  ...volumeSettings.properties,
  ...peopleSettings.properties,
  ...nodeSettings.properties,
})

export const mainApi = defineIngress({
  name: 'main-api',
  purpose: 'serves /api/v1: agent keys, tokens, who may do what, and what operators do',
  needs: ['eventLog', 'relational', 'identity', 'vectors', 'embedder'],
  config,
  check(env) {
    keysAtHand(env)
    checkPeopleSettings(env)
    loadNodes(env)
  },
  address: {
    name: 'base_url',
    portVariable: 'MAIN_API_PORT',
    port: 8_081,
    further: (url, env) => ({
      identity_exchange_url: identityExchangeUrl(loadConfig(identitySettings, env), url),
    }),
  },
  async load(env) {
    const { beginFirstPassword } = await import('./first-start.ts')
    const firstPassword = beginFirstPassword(env)
    const { registerMainApi } = await import('./routes.ts')
    return (app, context) => registerMainApi(app, context, firstPassword)
  },
})
