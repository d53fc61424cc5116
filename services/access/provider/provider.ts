/** Opens the identity provider of an interface: the chosen driver, on the platform's secrets and rows. */

import type { AnyIdentityProvider, IdentityEngine, SigningKeyStore } from '#engines/identity/port.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { openSecrets, type Secrets } from '../secrets/secrets.ts'
import { mayBuy } from '../tokens/rows.ts'
import { refreshTokensOf } from './refresh-tokens.ts'
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
