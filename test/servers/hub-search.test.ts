/** Notes are found by vector search, once more on Kafka, the schema registry, Postgres and (where it is) Qdrant. */

import { vi } from 'vitest'
import { onDistributedServers } from '../support/distributed-stack.ts'

vi.mock('../support/gateway-platform.ts', async () => {
  const { openDistributedGateway } = await import('../support/distributed-stack.ts')
  return { openGatewayPlatform: openDistributedGateway }
})

onDistributedServers()
await import('../flow/hub-search.test.ts')
