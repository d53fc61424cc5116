/** Rebuilding and growing on Kafka, registry, Postgres and (where it is) Qdrant. */

import { afterAll, beforeAll } from 'vitest'
import { describeRebuild } from '../flow/rebuild.promises.ts'
import { type DistributedServers, openDistributedServers } from '../support/distributed-servers.ts'

let servers: DistributedServers
beforeAll(async () => {
  servers = await openDistributedServers()
})
afterAll(() => servers?.close())

describeRebuild('distributed', async () => {
  await servers.clear()
  return servers.newEnvironment()
})
