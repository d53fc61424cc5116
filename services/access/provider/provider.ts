/**
 * The identity provider of an interface: its settings, and how it is opened: the chosen driver, on the platform's secrets and
 * its rows of refresh tokens.
 */

import { Type } from 'typebox'
import type {
  AnyIdentityProvider,
  IdentityEngine,
  RefreshRow,
  RefreshStore,
  SigningKeyStore,
} from '#engines/identity/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { openSecrets, type Secrets } from '../secrets/secrets.ts'
import { mayBuy } from '../tokens/tokens.ts'

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

/** Most refresh tokens of one uid; the oldest go first. */
const perUidMax = 100

function refreshTokensOf(relational: Relational): RefreshStore {
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
      const { rows } = await relational.query<RefreshRow>(
        `select hash, uid, claims, lifetime_s as "lifetimeS", auth_time as "authTime", expires_at as "expiresAt"
         from platform.refresh_tokens where hash = $1 and expires_at > now()`,
        [hash],
      )
      return rows[0]
    },
  }
}

export const tokenSettings = Type.Object({
  MAIN_API_URL: Type.Optional(
    Type.Refine(
      Type.String({
        minLength: 1,
        description:
          'public address of the main API, and the name of its local issuer in ID tokens; without it `http://127.0.0.1:<port>`; the same for all processes',
      }),
      isOrigin,
      () => 'must be an address such as https://api.example.org, without a path',
    ),
  ),
  CUSTOM_TOKEN_TTL_S: Type.Integer({
    minimum: 1,
    maximum: 86_400,
    default: 3_600,
    description: 'lifetime of a custom token in seconds; Firebase knows 3600 alone',
  }),
})

function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, pathname, search, hash, username } = new URL(text)
  const isBare = pathname === '/' && search === '' && hash === '' && username === ''
  return (protocol === 'http:' || protocol === 'https:') && isBare
}

const onLoopback = /^http:\/\/127\.0\.0\.1:\d{1,5}$/

/**
 * Without the setting the issuer is named after its port, which other processes need not know: then every port of this machine is
 * accepted, and the signing keys alone say which installation a token is of.
 */
export function issuerName(url: string | undefined, port: () => number | undefined) {
  const set = url === undefined ? undefined : new URL(url).origin
  return {
    /** Throws where neither a setting nor a port says it. */
    name(): string {
      const taken = port()
      if (set !== undefined) return set
      if (taken !== undefined) return `http://127.0.0.1:${taken}`
      throw new AppError('shutting_down', 'The interface has no address yet; try again in a second.')
    },
    /** Whether it is a name of this platform. */
    isOurs: (name: string) => (set === undefined ? onLoopback.test(name) : name === set),
  }
}
