/** Notes when agent keys were last used: off the way of the answer, all of a second together, each key once a minute at most. */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { describeError } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import type { Closeable } from '#lib/resource.ts'

const everyMs = 60_000
const gatherMs = 1_000
const keysMax = 20_000

export interface LastUse extends Closeable {
  /** The key was used now; returns at once. */
  note(keyId: string): void
}

export function createLastUse({
  relational,
  log,
  now = Date.now,
}: {
  relational: Relational
  log: Logger
  now?: () => number
}): LastUse {
  const noted = createLru<string, number>(keysMax)
  let waiting = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  function write(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    const uses = [...waiting]
    waiting = new Map()
    if (uses.length > 0) {
      writing = writing
        .then(() => writeUses(relational, uses))
        .catch((error) => {
          log.warn({ keys: uses.length, reason: describeError(error) }, 'agent-keys.last-use-lost')
        })
    }
    return writing
  }

  return {
    note(keyId) {
      const at = now()
      if (at - (noted.get(keyId) ?? Number.NEGATIVE_INFINITY) < everyMs || waiting.size >= keysMax) return
      noted.set(keyId, at)
      waiting.set(keyId, at)
      timer ??= setTimeout(write, gatherMs).unref()
    },
    close: write,
  }
}

async function writeUses(relational: Relational, uses: [string, number][]): Promise<void> {
  await relational.query(
    `update platform.agent_keys k set last_used_at = greatest(k.last_used_at, used.at)
     from unnest($1::text[], $2::timestamptz[]) as used (id, at) where k.id = used.id`,
    [uses.map(([id]) => id), uses.map(([, at]) => new Date(at))],
  )
}
