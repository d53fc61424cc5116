/** Signs with an agent's Ed25519 key. */

import { signAsync } from '@noble/ed25519'
import { hexOf } from './random.ts'

/** PKCS#8 (RFC 5958) of an Ed25519 key (RFC 8410), version 1 or 2: the algorithm, then the seed within two octet strings. */
const keyForm = /^30..0201(?:00|01)300506032b657004220420(.{64})/

/**
 * Signs texts with the key of a PKCS#8 PEM; signatures are in hexadecimal digits. Throws TypeError for another key, in words that show
 * nothing of it.
 */
export function signerOf(pem: string): (text: string) => Promise<string> {
  const seed = seedOf(pem)
  return async (text) => hexOf(await signAsync(new TextEncoder().encode(text), seed))
}

function seedOf(pem: string): Uint8Array {
  const body = /-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END PRIVATE KEY-----/.exec(pem)?.[1]
  if (body === undefined) throw new TypeError('the private key is no PKCS#8 PEM')
  const hex = hexOf(bytesOf(body))
  const seed = keyForm.exec(hex)?.[1]
  if (seed === undefined) throw new TypeError('the private key is no Ed25519 key')
  return Uint8Array.from(seed.match(/../g)!, (digits) => Number.parseInt(digits, 16))
}

function bytesOf(base64: string): Uint8Array {
  try {
    return Uint8Array.from(atob(base64.replace(/\s/g, '')), (character) => character.charCodeAt(0))
  } catch {
    throw new TypeError('the private key is no PKCS#8 PEM')
  }
}
