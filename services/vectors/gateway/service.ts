/** The vector gateway: agents prove who they are, write points into the log and search the vector engine. */

import { Type } from 'typebox'
import { budgets } from '#lib/budgets.ts'
import { defineIngress } from '#runtime/start/service.ts'
import { keysAtHand, secretSettings } from '#services/access/secrets/secrets.ts'
import { mirrorSettings, sleepLimits } from '../relational/settings.ts'

const config = Type.Object({
  ...secretSettings.properties,
  ...mirrorSettings.properties,
  GATEWAY_KEY_TTL_S: Type.Integer({
    minimum: 1,
    maximum: 30 * 86_400,
    default: 3_600,
    description: 'lifetime of a gateway key in seconds',
  }),
})

export const vectorGateway = defineVectorGateway()

export function defineVectorGateway(limits = sleepLimits) {
  return defineIngress({
    name: 'vector-gateway',
    purpose: 'serves /v1: handshakes, gateway keys, upserts, searches and every other vector operation',
    needs: ['eventLog', 'vectors', 'relational', 'mirror', 'embedder'],
    config,
    check: (env) => void keysAtHand(env),
    address: { name: 'vector_url', portVariable: 'VECTOR_GATEWAY_PORT', port: 8_080 },
    headerBytesMax: budgets.http.gatewayHeaderBytesMax,
    async load() {
      const { registerGateway } = await import('./routes.ts')
      return (app, context) => registerGateway(app, context, limits)
    },
  })
}
