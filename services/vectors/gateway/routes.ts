/** All routes of the gateway, below /v1. */

import type { FastifyInstance } from 'fastify'
import type { Closeable } from '#lib/resource.ts'
import { registerApiDescription } from '#runtime/http/app.ts'
import { requireGatewayKey } from '#services/access/callers/credentials.ts'
import { access } from '#services/access/front-door.ts'
import { limitRate } from '#services/access/limits/limiter.ts'
import type { SleepLimits } from '../relational/settings.ts'
import { type GatewayContext, openGateway } from './gateway.ts'
import { registerAuth } from './routes/auth.ts'
import { registerCollections, registerPayloadIndexes } from './routes/collections.ts'
import { registerCount } from './routes/count.ts'
import { registerDebug } from './routes/debug.ts'
import { registerDelete } from './routes/delete.ts'
import { registerEmbeddings } from './routes/embeddings.ts'
import { registerGet } from './routes/get.ts'
import { registerHealth } from './routes/health.ts'
import { registerOperations } from './routes/operations.ts'
import { registerPayload } from './routes/payload.ts'
import { registerScroll } from './routes/scroll.ts'
import { registerSearch } from './routes/search.ts'
import { registerSearchBatch } from './routes/search-batch.ts'
import { registerSearchPg } from './routes/search-pg.ts'
import { registerStats } from './routes/stats.ts'
import { registerUpsert } from './routes/writes.ts'

export async function registerGateway(
  app: FastifyInstance,
  context: GatewayContext,
  limits?: SleepLimits,
): Promise<Closeable> {
  const gateway = await openGateway(context, limits)
  app.addHook('preClose', (done) => {
    gateway.stopWaiting()
    done()
  })
  await registerApiDescription(app, {
    prefix: '/v1',
    title: 'Flotilla vector gateway',
    version: '1',
    description:
      'Managed vector search for agents. Prove possession of an Ed25519 key by handshake and verify, then send the ' +
      'api_key as Bearer credential. Writes are accepted into a log and applied in order; every fault is an RFC 9457 ' +
      'problem document with a stable code.',
    tags: [
      { name: 'auth', description: 'Challenge and response' },
      { name: 'collections', description: 'Collections: made, listed, deleted' },
      { name: 'vectors', description: 'Points of a collection' },
      { name: 'platform', description: 'Health, operations, embeddings' },
    ],
  })
  await app.register(
    async (v1) => {
      registerHealth(v1, gateway.health)
      await v1.register(async (scope) => registerAuth(scope, gateway), { prefix: '/auth' })
      await v1.register(async (scope) => {
        access(scope, { credential: requireGatewayKey(gateway) })
        registerOperations(scope, gateway)
        registerStats(scope, gateway)
        registerDebug(scope, gateway)
        await scope.register(async (counted) => {
          limitRate(counted, gateway.limiter)
          registerEmbeddings(counted, gateway)
          registerCollections(counted, gateway)
          registerPayloadIndexes(counted, gateway)
        })
      })
      await v1.register(
        async (vectors) => {
          access(vectors, {
            credential: requireGatewayKey(gateway),
            limits: gateway.limiter,
            trail: gateway.audit,
          })
          for (const register of [
            registerSearch,
            registerSearchBatch,
            registerSearchPg,
            registerScroll,
            registerCount,
            registerGet,
            registerDelete,
            registerPayload,
          ]) {
            register(vectors, gateway)
          }
          await vectors.register(async (scope) => registerUpsert(scope, gateway))
        },
        { prefix: '/vectors' },
      )
    },
    { prefix: '/v1' },
  )
  return gateway
}
