/** The gateway's promises through HTTP, once more on Kafka, the schema registry, Postgres and (where it is) Qdrant. */

import { describe, vi } from 'vitest'
import { onDistributedServers } from '../support/distributed-stack.ts'

vi.mock('../support/gateway-platform.ts', async () => {
  const { openDistributedGateway } = await import('../support/distributed-stack.ts')
  return { openGatewayPlatform: openDistributedGateway }
})

onDistributedServers()
for (const promises of ['points', 'auth', 'audit', 'hostile']) {
  describe(promises, async () => {
    await import(`../flow/gateway-${promises}.test.ts`)
  })
}
