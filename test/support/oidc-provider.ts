/** An OpenID Connect provider in this process, whose people sign in by themselves. */

import { generateKeyPairSync } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider, { type Configuration } from 'oidc-provider'

export interface ProviderAccount {
  email?: string
  /** Some providers send a text. */
  email_verified?: boolean | string
}

export interface TestProvider {
  issuer: string
  /** The person who signs in from now on. */
  signsIn: string
  accounts: Record<string, ProviderAccount>
  /** Once the address of the client is known. */
  register(redirectUri: string): void
  /** True: connections are taken and nothing is answered. */
  silent: boolean
  close(): Promise<void>
}

export const oidcClient = { id: 'flotilla', secret: 'the-secret-of-flotilla-at-the-provider' }

type Handler = (request: IncomingMessage, response: ServerResponse) => void

export async function openTestProvider(): Promise<TestProvider> {
  let handler: Handler = (_request, response) => void response.writeHead(503).end()
  const server = createServer((request, response) => {
    if (!provider.silent) handler(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider: TestProvider = {
    issuer,
    signsIn: 'nobody',
    accounts: {},
    silent: false,
    register(redirectUri) {
      const oidc = new Provider(issuer, configurationOf(provider, redirectUri))
      const callback = oidc.callback()
      handler = (request, response) => {
        if (!request.url?.startsWith('/interaction/')) return void callback(request, response)
        void oidc.interactionFinished(request, response, { login: { accountId: provider.signsIn } })
      }
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
  return provider
}

function configurationOf(provider: TestProvider, redirectUri: string): Configuration {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  return {
    clients: [
      {
        client_id: oidcClient.id,
        client_secret: oidcClient.secret,
        redirect_uris: [redirectUri],
        response_types: ['code'],
        grant_types: ['authorization_code'],
      },
    ],
    jwks: {
      keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'test', use: 'sig', alg: 'RS256' } as never],
    },
    cookies: { keys: ['only for tests'] },
    ttl: { AccessToken: 600, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    features: { devInteractions: { enabled: false } },
    pkce: { required: () => true },
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, ...provider.accounts[id] }),
    }),
    async loadExistingGrant(context) {
      const { client, session, provider: oidc } = context.oidc
      const grant = new oidc.Grant({ clientId: client!.clientId, accountId: session!.accountId! })
      grant.addOIDCScope('openid email profile')
      await grant.save()
      return grant
    },
  }
}
