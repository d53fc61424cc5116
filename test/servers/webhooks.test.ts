/** Webhooks on Kafka, registry and Postgres. */

import { afterAll, beforeAll } from 'vitest'
import { describeWebhooks } from '../flow/webhooks.promises.ts'
import { type DistributedServers, openDistributedServers } from '../support/distributed-servers.ts'

let servers: DistributedServers
beforeAll(async () => {
  servers = await openDistributedServers()
})
afterAll(() => servers?.close())

describeWebhooks('distributed', async () => {
  await servers.clear()
  return servers.newEnvironment()
})
