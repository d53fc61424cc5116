/** Chat windows and agent keys on Postgres and Kafka. */

import { describe, vi } from 'vitest'
import { onDistributedServers } from '../support/distributed-stack.ts'

vi.mock('../support/gateway-platform.ts', async () => {
  const { openDistributedGateway } = await import('../support/distributed-stack.ts')
  return { openGatewayPlatform: openDistributedGateway }
})

onDistributedServers()
for (const suite of ['runs-openai', 'runs-openai-sessions', 'agent-key-bearers'])
  describe(suite, async () => {
    await import(`../flow/${suite}.test.ts`)
  })
