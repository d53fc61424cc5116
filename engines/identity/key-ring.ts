/**
 * The keys that the local issuer signs with: shared by all instances, replaced every month, and kept after that until the
 * last token that they signed has run out. Nothing happens at rest: a key's age is looked at when it is to sign.
 */

import { createHash, randomBytes } from 'node:crypto'
import { type CryptoKey, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'
import type { SigningKeyStore } from './port.ts'

export const algorithm = 'ES256'

/** A key signs for this long. */
const signsMs = 30 * 86_400_000
/** Keys of other instances are read again before signing when they were read longer ago. */
const staleMs = 60_000
/** A token may name any key: the store is asked for an unknown one this often. */
const lookAgainMs = 1_000
/** An instance may go on signing with a key that was just retired, and clocks differ. */
const slackMs = staleMs + 10 * 60_000

interface StoredKey {
  kid: string
  private: JWK
  made_at: number
  retired_at?: number
}

export type KeyRing = Awaited<ReturnType<typeof openKeyRing>>

interface KeyRingOptions {
  store: SigningKeyStore
  /** The longest lifetime of what they sign. */
  tokenTtlMaxMs: number
  now(): number
}

interface LoadedKey extends StoredKey {
  signs: CryptoKey
  verifies: CryptoKey
  public: JWK
}

/** Reads the keys, or makes the first one. Throws what the store throws. */
export async function openKeyRing({ store, tokenTtlMaxMs, now }: KeyRingOptions) {
  let keys: LoadedKey[] = []
  let loadedText: string | undefined
  let loadedAt = 0
  let loading: Promise<void> | undefined

  const counts = ({ retired_at }: StoredKey) =>
    retired_at === undefined || now() < retired_at + tokenTtlMaxMs + slackMs
  const isOld = ({ made_at }: StoredKey) => now() - made_at >= signsMs
  const held = (kid: string) => keys.find((key) => key.kid === kid && counts(key))

  async function take(text: string): Promise<void> {
    if (text !== loadedText) keys = await Promise.all(parse(text).map(load))
    loadedText = text
    loadedAt = now()
  }
  /** One reading at a time, whoever asks. */
  function reload(): Promise<void> {
    loading ??= store
      .read()
      .then((text) => (text === undefined ? renew() : take(text)))
      .finally(() => {
        loading = undefined
      })
    return loading
  }
  /** Another instance may have been first: then its key is taken. */
  async function renew(force = false): Promise<void> {
    await take(
      await store.change(async (text) => {
        const stored = text === undefined ? [] : parse(text)
        const [newest] = stored
        if (text !== undefined && newest && !force && !isOld(newest)) return text
        const retired = stored.filter(counts).map((key) => ({ retired_at: now(), ...key }))
        return JSON.stringify({ keys: [await makeKey(now()), ...retired] })
      }),
    )
  }
  async function reloadForUnknown(kid: string): Promise<CryptoKey | undefined> {
    await reload()
    return held(kid)?.verifies
  }

  await reload()
  return {
    /** The key that signs now; makes the next one where its time is over. */
    async signing(): Promise<{ kid: string; key: CryptoKey }> {
      if (now() - loadedAt >= staleMs) await reload().catch(refuseWithoutKey)
      if (isOld(keys[0]!)) await renew()
      const { kid, signs } = keys[0]!
      return { kid, key: signs }
    },
    /** Undefined for a key that this platform does not have, or no more. */
    verifying(kid: string): CryptoKey | undefined | Promise<CryptoKey | undefined> {
      const known = held(kid)
      if (known) return known.verifies
      return now() - loadedAt < lookAgainMs ? undefined : reloadForUnknown(kid)
    },
    /** True for a key that was read and still counts. */
    holds: (kid: string): boolean => held(kid) !== undefined,
    /** Public halves, the newest first. */
    publicKeys: (): JWK[] => keys.filter(counts).map((key) => key.public),
    rotate: () => renew(true),
  }

  /** While the store is away the key at hand goes on. */
  function refuseWithoutKey(error: unknown): void {
    if (keys.length === 0 || isOld(keys[0]!)) throw error
  }
}

function parse(text: string): StoredKey[] {
  return (JSON.parse(text) as { keys: StoredKey[] }).keys
}

async function makeKey(madeAt: number): Promise<StoredKey> {
  const { privateKey } = await generateKeyPair(algorithm, { extractable: true })
  const jwk = await exportJWK(privateKey)
  return { kid: randomBytes(12).toString('base64url'), private: jwk, made_at: madeAt }
}

async function load(stored: StoredKey): Promise<LoadedKey> {
  const { d: _, ...open } = stored.private
  const published = { ...open, kid: stored.kid, alg: algorithm, use: 'sig' }
  const [signs, verifies] = await Promise.all([
    importJWK(stored.private, algorithm),
    importJWK(published, algorithm),
  ])
  return { ...stored, signs: signs as CryptoKey, verifies: verifies as CryptoKey, public: published }
}

/** SHA-256 of a token; the token itself is not kept. */
export function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
