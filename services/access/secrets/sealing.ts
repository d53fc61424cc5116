/** Encrypts secrets at rest, and what a browser keeps, with AES-256-GCM, and finds the key that one was encrypted with. */

import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto'

const version = 1
const keyBytes = 32
const keyIdBytes = 8
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + keyIdBytes + nonceBytes + tagBytes
const cipher = 'aes-256-gcm'

export interface SecretKey {
  /** 16 hex digits of the key's hash: may be shown. */
  id: string
  bytes: Buffer
}

export function newSecretKey(): SecretKey {
  return keyOf(randomBytes(keyBytes))
}

/** Reads 32 bytes in base64, base64url or hex; null for anything else. */
export function parseSecretKey(text: string): SecretKey | null {
  if (/^[0-9a-f]{64}$/i.test(text)) return keyOf(Buffer.from(text, 'hex'))
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return null
  const bytes = Buffer.from(text, 'base64')
  return bytes.length === keyBytes ? keyOf(bytes) : null
}

function keyOf(bytes: Buffer): SecretKey {
  const id = hash('sha256', Buffer.concat([Buffer.from('flotilla secret key\0'), bytes]), 'hex')
  return { id: id.slice(0, keyIdBytes * 2), bytes }
}

/** `name` is authenticated with it: a secret that was stored under another name does not open. */
export function seal(key: SecretKey, name: string, secret: Buffer): Buffer {
  const nonce = randomBytes(nonceBytes)
  const sealing = createCipheriv(cipher, key.bytes, nonce, { authTagLength: tagBytes })
  const head = Buffer.concat([Buffer.of(version), Buffer.from(key.id, 'hex'), nonce])
  sealing.setAAD(Buffer.concat([head, Buffer.from(name)]))
  const body = Buffer.concat([sealing.update(secret), sealing.final()])
  return Buffer.concat([head, sealing.getAuthTag(), body])
}

/** The id of the key that it was sealed with; null for what `seal` never wrote. */
export function sealedWith(sealed: Buffer): string | null {
  if (sealed.length < headBytes || sealed[0] !== version) return null
  return sealed.toString('hex', 1, 1 + keyIdBytes)
}

/** Null when none of the keys is the right one, or the bytes were changed. */
export function unseal(keys: readonly SecretKey[], name: string, sealed: Buffer): Buffer | null {
  const id = sealedWith(sealed)
  const key = keys.find((one) => one.id === id)
  if (!key) return null
  const head = sealed.subarray(0, 1 + keyIdBytes + nonceBytes)
  const opening = createDecipheriv(cipher, key.bytes, head.subarray(1 + keyIdBytes), {
    authTagLength: tagBytes,
  })
  opening.setAAD(Buffer.concat([head, Buffer.from(name)]))
  opening.setAuthTag(sealed.subarray(head.length, headBytes))
  try {
    return Buffer.concat([opening.update(sealed.subarray(headBytes)), opening.final()])
  } catch {
    return null
  }
}

export interface SealedCookies<T extends object> {
  seal(value: T): string
  /** Null for whatever is not such a cookie of this installation, or too old. */
  open(cookie: string | undefined): T | null
}

/** `name` keeps cookies of one kind from counting as another. */
export function createSealedCookies<T extends object>(
  key: SecretKey,
  { name, ttlS }: { name: string; ttlS: number },
  now: () => number = Date.now,
): SealedCookies<T> {
  return {
    seal(value) {
      const text = JSON.stringify({ ...value, until: now() + ttlS * 1_000 })
      return seal(key, name, Buffer.from(text)).toString('base64url')
    },
    open(cookie) {
      const bytes = unseal([key], name, Buffer.from(cookie ?? '', 'base64url'))
      if (!bytes) return null
      const { until, ...value } = JSON.parse(bytes.toString('utf8')) as T & { until: number }
      return until > now() ? (value as unknown as T) : null
    },
  }
}
