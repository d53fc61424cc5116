/** Finds the agent behind a gateway key, for every interface that accepts one: from a cache that drops changed agents. */

import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { EventLog } from '#engines/event-log/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Publisher } from '#runtime/messages.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { agentsChanges } from '#topics/catalog.ts'
import type { Access, Tier } from '../agents/agents.ts'

export interface Caller {
  uid: string
  agentId: string
  name: string
  role: string
  access: Access
  tier: Tier
  /** Its own figures; null for the tier's. */
  quota: number | null
  burst: number | null
  concurrent: number | null
}

export interface GatewayKeys extends Closeable {
  /**
   * The agent behind an `Authorization: Bearer vk_live_…` header; at once when the key is cached. Throws (or rejects
   * with) AppError `unauthorized` for whatever is not a valid key, `relational_engine_unavailable` when only the
   * database knows and it is away.
   */
  authenticate(authorization: string | undefined): Caller | Promise<Caller>
}

export interface GatewayKeysParts {
  relational: Relational
  eventLog: EventLog
  publisher: Pick<Publisher, 'locationOf'>
  log: Logger
}

const bearer = /^Bearer +(vk_live_[A-Za-z0-9_-]{43})$/i
const cachedKeysMax = 100_000
const lookupsMax = 256
/** A cached key is checked with the database this often, whatever the tail says. */
const recheckMs = 60_000
/** A check of a key that is cached waits this long for the database; then the key goes on for a while. */
const recheckTimeoutMs = deadlines.request.keyMs
const recheckAgainMs = 5_000
/** Rounds of asking again because an agent changed while the database answered. */
const roundsMax = 3
const sweepEveryMs = 10 * 60_000

interface CachedKey {
  caller: Caller
  expiresAt: number
  checkedAt: number
}

type KeyRow = Omit<Caller, 'agentId'> & { agent_id: string; left_ms: number }

/** SHA-256 of a key: the only form in which the platform keeps it. */
export function hashKey(key: string): Buffer {
  return hash('sha256', key, 'buffer')
}

/**
 * Follows `agents.changes`: any change of an agent drops its cached keys. A cached key counts only while that tail is
 * current; else, and every 60 s, the database is asked.
 */
export async function openGatewayKeys(parts: GatewayKeysParts): Promise<GatewayKeys> {
  const cache = createKeyCache()
  const checking = new Map<string, Promise<Caller>>()
  let changes = 0
  const tail = await parts.eventLog.tail({
    topic: parts.publisher.locationOf(agentsChanges).physicalName,
    from: 'end',
    records(_partition, records) {
      changes += records.length
      for (const record of records) if (record.key) cache.dropAgent(record.key.toString('utf8'))
    },
  })

  // Keys that ran out are refused anyway: they are deleted so that the table stays small.
  const sweeping = startRepeating(
    { what: 'sweep of gateway keys', everyMs: sweepEveryMs, firstAfterMs: sweepEveryMs, log: parts.log },
    () => parts.relational.query('delete from platform.gateway_keys where expires_at < now()'),
  )

  async function check(hash: string, cached: CachedKey | undefined): Promise<Caller> {
    // After a quiet time the tail has to ask first whether it missed something.
    const sure = cached !== undefined && (await tail.caughtUp())
    if (sure && cache.get(hash) === cached && !isDue(cached)) return cached.caller
    let found: CachedKey | undefined
    try {
      found = await look(hash, sure)
    } catch (error) {
      if (!cached || !isUnavailable(error) || !tail.current()) throw error
      cached.checkedAt = Date.now() - recheckMs + recheckAgainMs
      return cached.caller
    }
    if (found) return found.caller
    cache.drop(hash)
    throw refused()
  }

  async function look(hash: string, brief: boolean): Promise<CachedKey | undefined> {
    for (let round = 1; ; round++) {
      const seen = changes
      const asked = askDatabase(parts.relational, hash)
      const found = await (brief
        ? withTimeout(
            asked,
            recheckTimeoutMs,
            () => new AppError('relational_engine_unavailable', 'The database is slow.'),
          )
        : asked)
      if (changes !== seen && round < roundsMax) continue
      // What was read before a change must not be kept after it.
      if (found && changes === seen) cache.keep(hash, found)
      return found
    }
  }

  return {
    authenticate(authorization) {
      const key = bearer.exec(authorization ?? '')?.[1]
      if (key === undefined) throw refused()
      const keyHash = hash('sha256', key, 'base64')
      const cached = cache.get(keyHash)
      const now = Date.now()
      if (cached) {
        if (cached.expiresAt <= now) throw refused()
        if (!isDue(cached) && tail.current()) return cached.caller
      }
      const running = checking.get(keyHash)
      if (running) return running
      if (checking.size >= lookupsMax) {
        throw new AppError('overloaded', 'Too many keys are being checked; try again in a second.', {
          retryAfter: 1,
        })
      }
      const started = check(keyHash, cached).finally(() => checking.delete(keyHash))
      checking.set(keyHash, started)
      return started
    },
    async close() {
      await sweeping.close()
      await tail.close()
    },
  }
}

/** It is time to ask the database about it. */
function isDue({ checkedAt }: CachedKey): boolean {
  return Date.now() - checkedAt >= recheckMs
}

/** Keys by their hash, and the hashes of each agent. */
function createKeyCache() {
  const byAgent = new Map<string, Set<string>>()
  const keys = new LRUCache<string, CachedKey>({
    max: cachedKeysMax,
    disposeAfter(value, keyHash) {
      const hashes = byAgent.get(value.caller.agentId)
      if (keys.has(keyHash)) return
      hashes?.delete(keyHash)
      if (hashes?.size === 0) byAgent.delete(value.caller.agentId)
    },
  })
  return {
    get: (keyHash: string) => keys.get(keyHash),
    drop: (keyHash: string) => keys.delete(keyHash),
    keep(keyHash: string, key: CachedKey) {
      keys.set(keyHash, key)
      const hashes = byAgent.get(key.caller.agentId) ?? new Set()
      byAgent.set(key.caller.agentId, hashes.add(keyHash))
    },
    dropAgent(agentId: string) {
      for (const keyHash of [...(byAgent.get(agentId) ?? [])]) keys.delete(keyHash)
    },
  }
}

async function askDatabase(relational: Relational, keyHash: string): Promise<CachedKey | undefined> {
  const { rows } = await relational.query<KeyRow>(
    `select a.uid, a.agent_id, a.name, a.role, a.access, a.tier, a.quota, a.burst, a.concurrent,
            (extract(epoch from k.expires_at - now()) * 1000)::bigint as left_ms
     from platform.gateway_keys k join platform.agents a on a.uid = k.agent_uid
     where k.hash = $1 and k.expires_at > now()`,
    [Buffer.from(keyHash, 'base64')],
  )
  const row = rows[0]
  if (!row) return undefined
  const { agent_id: agentId, left_ms, ...agent } = row
  const now = Date.now()
  return {
    caller: { ...agent, agentId },
    // The database's clock decides; this one only counts down.
    expiresAt: now + Number(left_ms),
    checkedAt: now,
  }
}

function refused(): AppError {
  return new AppError('unauthorized', 'Send a valid gateway key: Authorization: Bearer vk_live_…')
}
