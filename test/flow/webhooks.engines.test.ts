/** Webhooks on Kafka, registry and Postgres. */

import { afterAll, beforeAll } from 'vitest'
import { type DistributedServers, openDistributedServers } from '../support/distributed-servers.ts'
import { describeWebhooks } from './webhooks.promises.ts'

let servers: DistributedServers
beforeAll(async () => {
  servers = await openDistributedServers()
})
afterAll(() => servers?.close())

describeWebhooks('distributed', async () => {
  await servers.clear()
  return servers.newEnvironment()
})
