/** Holds an agent's gateway key, which a handshake gets. */

import { type Credential, holdCredential } from './credentials.ts'
import { randomHex } from './random.ts'
import { signerOf } from './signer.ts'
import type { Transport } from './transport.ts'

export interface KeyHolderOptions {
  agentId: string
  /** PKCS#8 PEM; asked for at the first handshake. */
  privateKeyPem(): string
  now?: (() => number) | undefined
}

export function createKeyHolder(transport: Transport, options: KeyHolderOptions): Credential {
  let sign: ReturnType<typeof signerOf> | undefined

  return holdCredential(async () => {
    sign ??= signerOf(options.privateKeyPem())
    const challenge = await transport.call<{ client_nonce: string; server_nonce: string }>({
      method: 'POST',
      path: 'v1/auth/handshake',
      body: { agent_id: options.agentId, nonce: randomHex(32) },
      repeatable: true,
    })
    const signature = await sign(challenge.client_nonce + challenge.server_nonce)
    const issued = await transport.call<{ api_key: string; expires_in: number }>({
      method: 'POST',
      path: 'v1/auth/verify',
      body: { agent_id: options.agentId, signature },
      // A challenge is used once: a repeated verification would be refused.
      repeatable: false,
    })
    return { value: issued.api_key, lifetimeS: issued.expires_in }
  }, options.now)
}
