/** Sign-in at any OpenID Connect provider: authorization code with PKCE, state and nonce, by openid-client. */

import { hash, randomBytes } from 'node:crypto'
import type { Configuration } from 'openid-client'
import type { Logger } from 'pino'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { ProviderAccount } from '../people/people.ts'
import { createSealedCookies, type SealedCookies, type SecretKey } from '../secrets/sealing.ts'

type Client = typeof import('openid-client')

interface OidcSettings {
  issuer: string
  clientId: string
  clientSecret: string | null
}

export type Oidc = ReturnType<typeof createOidc>

interface FinishedSignIn {
  account: ProviderAccount
  verifiedEmail: string | null
  /** The provider says `email_verified` as the text "true", which counts for nothing. */
  saysVerifiedAsText: boolean
}

/** Endpoints of a provider change rarely. */
const discoveredForMs = 3_600_000

export function createOidc(settings: OidcSettings, log: Logger) {
  let discovered: { at: number; config: Promise<Configuration> } | undefined

  async function configuration(client: Client): Promise<Configuration> {
    if (discovered && performance.now() - discovered.at < discoveredForMs) return discovered.config
    const asking = { at: performance.now(), config: discover(client, settings) }
    discovered = asking
    asking.config.catch(() => {
      if (discovered === asking) discovered = undefined
    })
    return asking.config
  }

  async function translated<T>(what: string, work: (client: Client) => Promise<T>): Promise<T> {
    // Loaded only here: most platforms have no such provider.
    const client = await import('openid-client')
    try {
      return await work(client)
    } catch (error) {
      if (error instanceof AppError) throw error
      // Neither code nor token is in these: names of faults alone.
      const { code, error: named } = error as { code?: string; error?: string }
      log.warn({ what, code, error: named, reason: describeError(error) }, 'oidc.fault')
      throw isAway(error) ? away(error) : refused(error)
    }
  }

  return {
    /** Where the browser goes, and what it has to keep. Throws AppError `identity_unavailable`. */
    start: (redirectUri: string): Promise<{ url: string; begun: BegunSignIn }> =>
      translated('start', async (client) => {
        const config = await configuration(client)
        const verifier = client.randomPKCECodeVerifier()
        const begun = { state: client.randomState(), nonce: client.randomNonce(), verifier, redirectUri }
        const url = client.buildAuthorizationUrl(config, {
          redirect_uri: redirectUri,
          scope: 'openid email profile',
          state: begun.state,
          nonce: begun.nonce,
          code_challenge: await client.calculatePKCECodeChallenge(verifier),
          code_challenge_method: 'S256',
        })
        return { url: url.href, begun }
      }),
    /**
     * Who came back: `search` is the query of the callback's address. Throws AppError `forbidden` for what is not the
     * provider's answer to this start, `identity_unavailable`.
     */
    finish: (begun: BegunSignIn, search: string): Promise<FinishedSignIn> =>
      translated('callback', async (client) => {
        const config = await configuration(client)
        const current = new URL(begun.redirectUri)
        current.search = search
        const answer = await client.authorizationCodeGrant(config, current, {
          pkceCodeVerifier: begun.verifier,
          expectedState: begun.state,
          expectedNonce: begun.nonce,
          idTokenExpected: true,
        })
        const claims = answer.claims()
        if (!claims) throw refused(new Error('no ID token'))
        const account = { issuer: settings.issuer, subject: claims.sub }
        const known = emailOf({ ...claims })
        // Many providers keep the e-mail out of the ID token.
        const isElsewhere =
          claims.email === undefined && config.serverMetadata().userinfo_endpoint !== undefined
        if (known.verifiedEmail !== null || !isElsewhere) return { account, ...known }
        const info = await client.fetchUserInfo(config, answer.access_token, claims.sub)
        return { account, ...emailOf({ ...info }) }
      }),
  }
}

async function discover(
  client: Client,
  { issuer, clientId, clientSecret }: OidcSettings,
): Promise<Configuration> {
  const server = new URL(issuer)
  const execute = [client.enableNonRepudiationChecks]
  // The settings allow it on this machine alone.
  if (server.protocol === 'http:') execute.push(client.allowInsecureRequests)
  const options = { timeout: deadlines.request.identityMs / 1_000, execute }
  const found = await client.discovery(server, clientId, undefined, client.None(), options)
  if (clientSecret === null) return found
  const metadata = found.serverMetadata()
  // The default of the standard is Basic; a provider that does not list it takes the secret in the body.
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
  const authentication = methods.includes('client_secret_basic')
    ? client.ClientSecretBasic(clientSecret)
    : client.ClientSecretPost(clientSecret)
  const config = new client.Configuration(metadata, clientId, undefined, authentication)
  config.timeout = options.timeout
  for (const apply of execute) apply(config)
  return config
}

function emailOf({ email, email_verified }: Record<string, unknown>): Omit<FinishedSignIn, 'account'> {
  return {
    verifiedEmail: typeof email === 'string' && email_verified === true ? email : null,
    saysVerifiedAsText: email_verified === 'true',
  }
}

/** The provider did not answer, or with a fault of its own. */
function isAway(error: unknown): boolean {
  const { name, message, code, status, cause } = error as {
    name?: string
    message?: string
    code?: string
    status?: number
    cause?: { status?: number }
  }
  if (code === 'OAUTH_TIMEOUT' || code === 'OAUTH_ABORT') return true
  if (name === 'TypeError' && message === 'fetch failed') return true
  return (status ?? cause?.status ?? 0) >= 500
}

function away(cause: unknown): AppError {
  return new AppError('identity_unavailable', 'The OpenID Connect provider does not answer.', { cause })
}

function refused(cause: unknown): AppError {
  return new AppError('forbidden', 'The provider did not confirm this sign-in: begin again.', { cause })
}

/** Longest sign-in, from its start to the session. */
export const startTtlS = 600

interface BegunSignIn {
  state: string
  nonce: string
  /** Code verifier of PKCE. */
  verifier: string
  redirectUri: string
}

export type StartCookies = SealedCookies<BegunSignIn>

/**
 * What the browser that began a sign-in keeps until it is done: encrypted in a cookie, so that every instance can go on and
 * nobody can begin for another. The callback gives its page a one-time code, which the same browser trades for a session.
 */
export function createStartCookies(key: SecretKey, now?: () => number): StartCookies {
  return createSealedCookies(key, { name: 'oidc-start', ttlS: startTtlS }, now)
}

/** Binds what belongs to the sign-in to the browser that began it. */
function hashOfState(state: string): Buffer {
  return hash('sha256', `oidc state ${state}`, 'buffer')
}

const codeTtlS = 60

export async function issueCode(executor: SqlExecutor, personUid: string, state: string): Promise<string> {
  const code = randomBytes(32).toString('base64url')
  await executor.query(
    `insert into platform.sign_in_codes (hash, person_uid, state_hash, expires_at)
     values ($1, $2, $3, now() + make_interval(secs => $4))`,
    [hash('sha256', code, 'buffer'), personUid, hashOfState(state), codeTtlS],
  )
  return code
}

/** The person of a code, once, for the browser with this state; null for every other code. */
export async function tradeCode(executor: SqlExecutor, code: string, state: string): Promise<string | null> {
  const { rows } = await executor.query<{ person_uid: string }>(
    `delete from platform.sign_in_codes
     where hash = $1 and state_hash = $2 and expires_at > now() returning person_uid`,
    [hash('sha256', code, 'buffer'), hashOfState(state)],
  )
  return rows[0]?.person_uid ?? null
}
