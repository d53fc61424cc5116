/** Opens the identity provider of an interface: the chosen driver, on the platform's secrets and its rows of refresh tokens. */

import type {
  AnyIdentityProvider,
  IdentityEngine,
  RefreshRow,
  RefreshStore,
  SigningKeyStore,
} from '#engines/identity/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { openSecrets, type Secrets } from '../secrets/secrets.ts'
import { mayBuy } from '../tokens/tokens.ts'
import { issuerName } from './settings.ts'

const keysName = 'identity-signing-keys'

interface ProviderContext extends Pick<ServiceContext<'relational', unknown>, 'engines' | 'env' | 'log'> {
  engines: ServiceContext<'relational', unknown>['engines'] & { identity: IdentityEngine }
  config: { MAIN_API_URL?: string; CUSTOM_TOKEN_TTL_S: number }
}

/**
 * `port` is that of the main API, where this process serves it: elsewhere nothing is signed. Throws AppError
 * `invalid_configuration` when the secrets do not open.
 */
export async function openProvider(
  { engines, env, log, config }: ProviderContext,
  port: () => number | undefined = () => undefined,
): Promise<AnyIdentityProvider> {
  const { relational, identity } = engines
  const issuer = issuerName(config.MAIN_API_URL, port)
  return identity.open({
    log,
    customTokenTtlS: config.CUSTOM_TOKEN_TTL_S,
    issuer: issuer.name,
    isIssuer: issuer.isOurs,
    signingKeys: signingKeysIn(await openSecrets(relational, env, log)),
    refreshTokens: refreshTokensOf(relational),
    mayBuy: (uid, claims) => mayBuy(relational, uid, claims),
  })
}

function signingKeysIn(secrets: Secrets): SigningKeyStore {
  return {
    read: async () => (await secrets.find(keysName))?.toString('utf8'),
    async change(work) {
      const stored = await secrets.change(keysName, async (old) =>
        Buffer.from(await work(old?.toString('utf8'))),
      )
      return stored.toString('utf8')
    },
  }
}

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
