/** Finds the agent behind a gateway key, for every interface that accepts one, and shows which keys an agent has. */

import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import type { Log } from '#engines/event-log/port.ts'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Publisher } from '#runtime/publish/messages.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { agentsChanges } from '#topics/catalog.ts'
import {
  agentCaller,
  type Caller,
  type CallerRow,
  callerColumns,
  type Found,
  openFollowedCallers,
} from '../callers/caller.ts'

export interface GatewayKeys extends Closeable {
  /**
   * The agent behind an `Authorization: Bearer vk_live_…` header; at once when the key is cached. Throws (or rejects
   * with) AppError `unauthorized` for whatever is not a valid key, `relational_engine_unavailable` when only the
   * database knows and it is away.
   */
  authenticate(authorization: string | undefined): Caller | Promise<Caller>
}

interface GatewayKeysParts {
  relational: Relational
  eventLog: Log
  publisher: Pick<Publisher, 'locationOf'>
  log: Logger
}

const bearer = /^Bearer +(vk_live_[A-Za-z0-9_-]{43})$/i
const sweepEveryMs = 10 * 60_000

/** SHA-256 of a key: the only form in which the platform keeps it. */
export function hashKey(key: string): Buffer {
  return hash('sha256', key, 'buffer')
}

/**
 * Follows `agents.changes`: any change of an agent drops its cached keys. A cached key counts only while that tail is
 * current; else, and every 60 s, the database is asked.
 */
export async function openGatewayKeys(parts: GatewayKeysParts): Promise<GatewayKeys> {
  const callers = await openFollowedCallers({
    ...parts,
    topics: [agentsChanges],
    ask: (keyHash) => askDatabase(parts.relational, keyHash),
    refused,
  })

  // Keys that ran out are refused anyway: they are deleted so that the table stays small.
  const sweeping = startRepeating(
    { what: 'sweep of gateway keys', everyMs: sweepEveryMs, firstAfterMs: sweepEveryMs, log: parts.log },
    () => parts.relational.query('delete from platform.gateway_keys where expires_at < now()'),
  )

  return {
    authenticate(authorization) {
      const key = bearer.exec(authorization ?? '')?.[1]
      if (key === undefined) throw refused()
      return callers.find(hash('sha256', key, 'base64'))
    },
    async close() {
      await sweeping.close()
      await callers.close()
    },
  }
}

async function askDatabase(relational: Relational, keyHash: string): Promise<Found | undefined> {
  const { rows } = await relational.query<CallerRow & { left_ms: number }>(
    `select ${callerColumns},
            (extract(epoch from k.expires_at - now()) * 1000)::bigint as left_ms
     from platform.gateway_keys k join platform.agents a on a.uid = k.agent_uid
     where k.hash = $1 and k.expires_at > now()`,
    [Buffer.from(keyHash, 'base64')],
  )
  const row = rows[0]
  if (!row) return undefined
  // The database's clock decides; this one only counts down.
  const expiresAt = Date.now() + Number(row.left_ms)
  return { caller: { ...agentCaller(row), tokenExpiresAt: expiresAt }, expiresAt }
}

function refused(): AppError {
  return new AppError('unauthorized', 'Send a valid gateway key: Authorization: Bearer vk_live_…')
}

export interface Session {
  key: string
  created_at: string
  expires_at: string
}

const sessionsMax = 1_000

export async function readSessions(executor: SqlExecutor, uid: string): Promise<Session[]> {
  const { rows } = await executor.query<{ shown: string; created_at: Date; expires_at: Date }>(
    `select shown, created_at, expires_at from platform.gateway_keys
     where agent_uid = $1 and expires_at > now() order by created_at desc limit ${sessionsMax}`,
    [uid],
  )
  return rows.map(({ shown, created_at, expires_at }) => ({
    key: shown,
    created_at: created_at.toISOString(),
    expires_at: expires_at.toISOString(),
  }))
}
