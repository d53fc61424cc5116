/** Webhooks on Kafka, registry and Postgres. */

import { afterAll, beforeAll } from 'vitest'
import { describeWebhooks } from '../flow/webhooks.promises.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'

let servers: Stack
beforeAll(async () => {
  servers = await openStack()
})
afterAll(() => servers?.close())

describeWebhooks('distributed', async () => {
  await servers.clear()
  return servers.newEnvironment()
})
