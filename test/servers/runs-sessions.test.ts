/** Messages of runs and sessions on Postgres and Kafka. */

import { vi } from 'vitest'
import { onDistributedServers } from '../support/distributed-stack.ts'

vi.mock('../support/gateway-platform.ts', async () => {
  const { openDistributedGateway } = await import('../support/distributed-stack.ts')
  return { openGatewayPlatform: openDistributedGateway }
})

onDistributedServers()
const { describeSessions } = await import('../flow/runs-sessions.promises.ts')
describeSessions('distributed engines')
