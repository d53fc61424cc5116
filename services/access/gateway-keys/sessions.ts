/** An agent's gateway keys that are valid now, for people to look at: never a key, only its first six random characters. */

import type { SqlExecutor } from '#engines/relational/port.ts'

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
