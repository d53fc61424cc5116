/** The rows behind the local issuer's refresh tokens. */

import type { RefreshRow, RefreshStore } from '#engines/identity/port.ts'
import type { Relational } from '#engines/relational/port.ts'

/** Of one uid: the oldest go first. */
const perUidMax = 100

interface Row {
  hash: Buffer
  uid: string
  claims: Record<string, string>
  lifetime_s: number
  auth_time: Date
  expires_at: Date
}

export function refreshTokensOf(relational: Relational): RefreshStore {
  return {
    async add({ hash, uid, claims, lifetimeS, authTime, expiresAt }: RefreshRow) {
      await relational.query(
        `with kept as (
           select hash from platform.refresh_tokens where uid = $2 order by auth_time desc limit ${perUidMax - 1}
         ), pruned as (
           delete from platform.refresh_tokens where uid = $2 and hash not in (select hash from kept)
         )
         insert into platform.refresh_tokens (hash, uid, claims, lifetime_s, auth_time, expires_at)
         values ($1, $2, $3::jsonb, $4, $5, $6)`,
        [hash, uid, JSON.stringify(claims), lifetimeS, authTime, expiresAt],
      )
    },
    async find(hash) {
      const { rows } = await relational.query<Row>(
        `select hash, uid, claims, lifetime_s, auth_time, expires_at from platform.refresh_tokens
         where hash = $1 and expires_at > now()`,
        [hash],
      )
      const row = rows[0]
      if (!row) return undefined
      const { lifetime_s: lifetimeS, auth_time: authTime, expires_at: expiresAt, ...rest } = row
      return { ...rest, lifetimeS, authTime, expiresAt }
    },
  }
}

/** Those that ran out are refused anyway: they are deleted so that the table stays small. */
export async function sweepRefreshTokens(relational: Relational): Promise<void> {
  await relational.query('delete from platform.refresh_tokens where expires_at < now()')
}
