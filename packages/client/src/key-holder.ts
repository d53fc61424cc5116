/** Holds an agent's gateway key: makes a handshake when a key is needed or refused, one at a time. */

import { createPrivateKey, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { Transport } from './transport.ts'

/** A key is renewed when less than this share of its lifetime is left. */
const renewShare = 0.1

export interface KeyHolder {
  /** A key that is still valid for a while. */
  key(): Promise<string>
  /** Forgets a key that was refused; the next `key()` makes a new one. */
  refused(key: string): void
}

export interface KeyHolderOptions {
  agentId: string
  /** PKCS#8 PEM; asked for at the first handshake. */
  privateKeyPem(): string
  now?: () => number
}

interface HeldKey {
  value: string
  renewAt: number
}

export function createKeyHolder(transport: Transport, options: KeyHolderOptions): KeyHolder {
  const now = options.now ?? (() => performance.now())
  let held: HeldKey | undefined
  let renewing: Promise<HeldKey> | undefined
  let privateKey: KeyObject | undefined

  async function handshake(): Promise<HeldKey> {
    privateKey ??= createPrivateKey(options.privateKeyPem())
    const begun = now()
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
    return { value: issued.api_key, renewAt: begun + issued.expires_in * 1_000 * (1 - renewShare) }
  }

  return {
    async key() {
      if (held && now() < held.renewAt) return held.value
      renewing ??= handshake().finally(() => {
        renewing = undefined
      })
      held = await renewing
      return held.value
    },
    refused(key) {
      if (held?.value === key) held = undefined
    },
  }
}
