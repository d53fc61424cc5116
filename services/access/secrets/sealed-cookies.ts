/** What a browser keeps for this installation: encrypted and bounded in time, so that every instance reads it and nobody makes one. */

import { type SecretKey, seal, unseal } from './sealing.ts'

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
