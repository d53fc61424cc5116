/** Holds an agent's gateway key, which a handshake gets. */

import { createPrivateKey, type KeyObject, randomBytes, sign } from 'node:crypto'
import { type HeldCredential, holdCredential, type Transport } from './transport.ts'

export interface KeyHolderOptions {
  agentId: string
  /** PKCS#8 PEM; asked for at the first handshake. */
  privateKeyPem(): string
  now?: (() => number) | undefined
}

export function createKeyHolder(transport: Transport, options: KeyHolderOptions): HeldCredential {
  let privateKey: KeyObject | undefined

  return holdCredential(async () => {
    privateKey ??= createPrivateKey(options.privateKeyPem())
    const challenge = await transport.call<{ client_nonce: string; server_nonce: string }>({
      method: 'POST',
      path: 'v1/auth/handshake',
      body: { agent_id: options.agentId, nonce: randomBytes(32).toString('hex') },
      repeatable: true,
    })
    const text = challenge.client_nonce + challenge.server_nonce
    const signature = sign(null, Buffer.from(text, 'utf8'), privateKey).toString('hex')
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
