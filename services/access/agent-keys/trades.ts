/**
 * What a trade of an agent key for a token needs: who holds the key (those that come while the database answers are asked about
 * together), how often it may be traded, and a note of its last use, off the way of the answer.
 */

import type { Logger } from 'pino'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { clientNetwork } from '#lib/hosts.ts'
import { createLru } from '#lib/lru.ts'
import { createSlidingWindows, refuseFor } from '#lib/sliding-window.ts'
import { agentCaller, type Caller, type CallerRow, callerColumns } from '../callers/caller.ts'

/** The agent that holds a key. */
type KeyHolder = Caller & { agentKeyId: string }

const batchMax = 100
const waitingMax = 2_000

interface Waiting {
  keyHash: string
  resolve(holder: KeyHolder | undefined): void
  reject(error: unknown): void
}

export function createKeyHolders(relational: Relational) {
  const waiting: Waiting[] = []
  let asking = false

  async function askAll(): Promise<void> {
    asking = true
    while (waiting.length > 0) {
      const batch = waiting.splice(0, batchMax)
      try {
        const holders = await readHolders(relational, new Set(batch.map(({ keyHash }) => keyHash)))
        for (const { keyHash, resolve } of batch) resolve(holders.get(keyHash))
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    asking = false
  }

  return {
    /**
     * The agent behind the hash of a key (as `hashAgentKey` makes it); undefined when it is unknown or revoked. Both take the
     * same way, so that the time of the answer says nothing. Rejects with AppError `overloaded`, or with what the database
     * rejects with.
     */
    find(keyHash: string): Promise<KeyHolder | undefined> {
      if (waiting.length >= waitingMax) {
        return Promise.reject(
          new AppError('overloaded', 'Too many agent keys are being looked up; try again in a second.', {
            retryAfter: 1,
          }),
        )
      }
      return new Promise((resolve, reject) => {
        waiting.push({ keyHash, resolve, reject })
        if (!asking) void askAll()
      })
    },
  }
}

interface HolderRow extends CallerRow {
  hash: string
  id: string
  revoked: boolean
}

async function readHolders(
  executor: SqlExecutor,
  keyHashes: ReadonlySet<string>,
): Promise<Map<string, KeyHolder>> {
  const { rows } = await executor.query<HolderRow>(
    `select encode(k.hash, 'base64') as hash, k.id, k.revoked_at is not null as revoked,
            ${callerColumns}
     from platform.agent_keys k join platform.agents a on a.uid = k.agent_uid
     where k.hash = any (array(select decode(asked, 'base64') from unnest($1::text[]) as asked))`,
    [[...keyHashes]],
  )
  const live = rows.filter(({ revoked }) => !revoked)
  return new Map(live.map((row) => [row.hash, { ...agentCaller(row), agentKeyId: row.id }]))
}

/** Ten a minute; five of them at once, after which they pass with the pace of ten a minute. */
const perKey = [
  { count: 10, windowMs: 60_000 },
  { count: 5, windowMs: 6_000 },
]
const perAddress = [{ count: 100, windowMs: 1_000 }]
const limitedKeysMax = 50_000
const addressesMax = 20_000

export type KeyLimits = ReturnType<typeof createKeyLimits>

/** All addresses of an IPv6 /64 count as one. Beyond 50,000 keys the one that was used least recently is forgotten. */
export function createKeyLimits(now: () => number = () => performance.now()) {
  const keys = createSlidingWindows(perKey, limitedKeysMax)
  const addresses = createSlidingWindows(perAddress, addressesMax)
  return {
    /**
     * Counts a trade of this key, known or not, from this address; the result takes that back. Throws AppError `rate_limited`, which
     * says what there was too much of; then it does not count.
     */
    admit(keyHash: string, address: string, what = 'trades of an agent key'): () => void {
      const nowMs = now()
      const client = clientNetwork(address)
      const waitMs = Math.max(keys.waitMs(keyHash, nowMs), addresses.waitMs(client, nowMs))
      refuseFor(waitMs, what)
      keys.count(keyHash, nowMs)
      addresses.count(client, nowMs)
      return () => {
        keys.uncount(keyHash, nowMs)
        addresses.uncount(client, nowMs)
      }
    },
  }
}

const notedEveryMs = 60_000
const gatherMs = 1_000
const notedKeysMax = 20_000

export type LastUse = ReturnType<typeof createLastUse>

export function createLastUse({
  relational,
  log,
  now = Date.now,
}: {
  relational: Relational
  log: Logger
  now?: () => number
}) {
  const noted = createLru<string, number>(notedKeysMax)
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
    /** The key was used now; returns at once. */
    note(keyId: string): void {
      const at = now()
      if (at - (noted.get(keyId) ?? Number.NEGATIVE_INFINITY) < notedEveryMs || waiting.size >= notedKeysMax)
        return
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
