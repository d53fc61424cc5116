/** Sign-in at any OpenID Connect provider: authorization code with PKCE, state and nonce, by openid-client. */

import type { Configuration } from 'openid-client'
import type { Logger } from 'pino'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { ProviderAccount } from '../people/people.ts'
import type { BegunSignIn } from './start-cookie.ts'

type Client = typeof import('openid-client')

interface OidcSettings {
  issuer: string
  clientId: string
  clientSecret: string | null
}

export interface Oidc {
  /** Where the browser goes, and what it has to keep. Throws AppError `identity_unavailable`. */
  start(redirectUri: string): Promise<{ url: string; begun: BegunSignIn }>
  /**
   * Who came back: `search` is the query of the callback's address. Throws AppError `forbidden` for what is not the
   * provider's answer to this start, `identity_unavailable`.
   */
  finish(begun: BegunSignIn, search: string): Promise<FinishedSignIn>
}

interface FinishedSignIn {
  account: ProviderAccount
  verifiedEmail: string | null
  /** The provider says `email_verified` as the text "true", which counts for nothing. */
  saysVerifiedAsText: boolean
}

/** Endpoints of a provider change rarely. */
const discoveredForMs = 3_600_000

export function createOidc(settings: OidcSettings, log: Logger): Oidc {
  let discovered: { at: number; config: Promise<Configuration> } | undefined

  /** Loaded only here: most platforms have no such provider. */
  const library = () => import('openid-client')

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
    const client = await library()
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
    start: (redirectUri) =>
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
    finish: (begun, search) =>
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
