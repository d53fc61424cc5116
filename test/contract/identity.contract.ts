/** Promises of every identity provider: custom tokens that buy ID tokens, and the owner of an ID token. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { IdentityProvider } from '#engines/identity/port.ts'

export interface OpenedIdentity {
  provider: IdentityProvider
  /** Trades a custom token as a client does. */
  exchange(customToken: string): Promise<string>
  /** An ID token of this uid, with claims of its own in place of the usual ones, signed as good as the driver does. */
  idTokenWith(uid: string, claims: Record<string, unknown>): Promise<string>
  close(): Promise<void>
}

export interface IdentityHarness {
  open(): Promise<OpenedIdentity>
  /** Promises that the driver cannot keep, and why. */
  lacks?: { signatures?: string }
}

const hourMs = 3_600_000

export function describeIdentity(driverName: string, harness: IdentityHarness): void {
  describe(`identity on ${driverName}`, () => {
    let identity: OpenedIdentity
    beforeAll(async () => {
      identity = await harness.open()
    })
    afterAll(() => identity?.close())
    const signIn = async (uid: string, claims: Record<string, string> = {}) =>
      identity.exchange((await identity.provider.createCustomToken(uid, claims)).customToken)
    const refusal = (token: string) =>
      identity.provider.verifyIdToken(token).then(
        () => 'accepted',
        (error: { code: string }) => error.code,
      )

    test('a custom token buys an ID token of its uid and claims', async () => {
      const before = Date.now()
      const { customToken, expiresInS } = await identity.provider.createCustomToken('agent_a', {
        agent_key: 'ak_1',
      })
      expect(expiresInS).toBe(3_600)
      const verified = await identity.provider.verifyIdToken(await identity.exchange(customToken))
      expect(verified).toMatchObject({
        uid: 'agent_a',
        claims: { agent_key: 'ak_1', sub: 'agent_a', user_id: 'agent_a' },
      })
      // Tokens have whole seconds.
      const now = Date.now()
      expect(verified.issuedAt).toBeGreaterThanOrEqual(before - 1_000)
      expect(verified.issuedAt).toBeLessThanOrEqual(now)
      expect(verified.authTime).toBeGreaterThanOrEqual(before - 1_000)
      expect(verified.authTime).toBeLessThanOrEqual(now)
      expect(verified.expiresAt).toBe(verified.issuedAt + hourMs)
    })

    test('tokens of several uids are kept apart', async () => {
      const tokens = await Promise.all(['agent_b', 'agent_c'].map((uid) => signIn(uid)))
      const verified = await Promise.all(tokens.map((token) => identity.provider.verifyIdToken(token)))
      expect(verified.map(({ uid }) => uid)).toEqual(['agent_b', 'agent_c'])
    })

    test('a token is good more than once', async () => {
      const token = await signIn('agent_d')
      for (let n = 0; n < 3; n++) expect((await identity.provider.verifyIdToken(token)).uid).toBe('agent_d')
    })

    test.each([
      ['nothing', ''],
      ['a word', 'token'],
      ['three words', 'a.b.c'],
      ['no claims', 'eyJhbGciOiJub25lIn0.e30.'],
      ['JSON', '{}'],
    ])('%s is unauthorized', async (_what, token) => {
      expect(await refusal(token)).toBe('unauthorized')
    })

    test('a custom token is no ID token, and an ID token no custom token', async () => {
      const { customToken } = await identity.provider.createCustomToken('agent_e', {})
      expect(await refusal(customToken)).toBe('unauthorized')
      await expect(identity.exchange(await signIn('agent_e'))).rejects.toThrow('INVALID_CUSTOM_TOKEN')
    })

    test('a token that ran out is token_expired', async () => {
      await signIn('agent_f')
      const nowS = Math.floor(Date.now() / 1_000)
      const times = { iat: nowS - 4_000, auth_time: nowS - 4_000, exp: nowS - 400 }
      expect(await refusal(await identity.idTokenWith('agent_f', times))).toBe('token_expired')
    })

    test.each([
      ['another audience', { aud: 'another-project' }],
      ['another issuer', { iss: 'https://securetoken.google.com/another-project' }],
      ['no subject', { sub: '' }],
    ])('%s is unauthorized', async (_what, claims) => {
      await signIn('agent_g')
      expect(await refusal(await identity.idTokenWith('agent_g', claims))).toBe('unauthorized')
    })

    test.skipIf(harness.lacks?.signatures)('no byte of a token can be changed', async () => {
      const token = await signIn('agent_h')
      for (const at of [3, token.indexOf('.') + 5, token.lastIndexOf('.') + 5]) {
        const other = token[at] === 'A' ? 'B' : 'A'
        expect(await refusal(token.slice(0, at) + other + token.slice(at + 1))).toBe('unauthorized')
      }
      expect(await refusal(token.slice(0, token.lastIndexOf('.') + 1))).toBe('unauthorized')
    })

    test('closing twice is no fault', async () => {
      const another = await harness.open()
      await another.close()
      await another.close()
    })
  })
}
