/** Opens an agent's way to the platform with its first message: a node may start before the platform answers. */

import { existsSync } from 'node:fs'
import { createClient } from '#client/client.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Memory } from './memory.ts'

export interface PlatformUrls {
  vectorUrl: string
  hubUrl: string | undefined
}

export interface MemoryParts {
  agentId: string
  privateKeyFile: string
  /** Undefined while the platform does not answer. */
  urls(): PlatformUrls | undefined
}

/** Limits of the agent are waited for. */
const waitOutLimitsMs = 30_000
const timeoutMs = 20_000

interface SharedMemory extends Closeable {
  /** Throws an Error in plain words. */
  open(): Promise<Memory>
}

/** The platform may come back at other addresses. */
export function createSharedMemory({ agentId, privateKeyFile, urls }: MemoryParts): SharedMemory {
  let held: { client: ReturnType<typeof createClient>; key: string } | undefined
  return {
    async open() {
      const found = urls()
      if (!found) throw new Error('the platform does not answer')
      if (!existsSync(privateKeyFile))
        throw new Error(`the key of the agent ${agentId} is not where it should be`)
      const key = JSON.stringify(found)
      if (held?.key !== key) {
        await held?.client.close()
        held = {
          client: createClient({ ...found, agentId, privateKeyFile, waitOutLimitsMs, timeoutMs }),
          key,
        }
      }
      return held.client
    },
    async close() {
      await held?.client.close()
    },
  }
}
