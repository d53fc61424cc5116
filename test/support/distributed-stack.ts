/** The gateway's flow tests on distributed engines: the same platform in this process, other drivers below. */

import { afterAll, beforeAll, vi } from 'vitest'
import { openStack, type Stack } from './distributed-servers.ts'
import type { GatewayPlatform } from './gateway-platform.ts'

let servers: Stack

/** Starts the servers before the file's first suite and ends them after its last. */
export function onDistributedServers(): void {
  beforeAll(async () => {
    servers = await openStack()
  })
  afterAll(() => servers?.close())
}

/** Replaces `openGatewayPlatform`: each platform finds empty engines, so only one may be open at a time. */
export async function openDistributedGateway(env: Record<string, string> = {}): Promise<GatewayPlatform> {
  const { openGatewayPlatform } =
    await vi.importActual<typeof import('./gateway-platform.ts')>('./gateway-platform.ts')
  await servers.clear()
  return openGatewayPlatform({ ...(await servers.newEnvironment()), ...env })
}
