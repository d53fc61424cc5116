/** What the local issuer refuses, how its keys are replaced, and how several instances are one issuer. */

import { createHmac, generateKeyPairSync } from 'node:crypto'
import { exportSPKI, importJWK, SignJWT } from 'jose'
import { describe, expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { createInstallation, type Installation, issuerUrl, openInstance } from '../../../support/identity.ts'

const dayMs = 86_400_000
const start = Date.UTC(2026, 0, 1)

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'accepted',
    (error: AppError) => error.code,
  )

async function storedKey(installation: Installation) {
  const { keys } = JSON.parse((await installation.signingKeys.read())!)
  return keys[0] as { kid: string; private: object }
}

/** Claims as the issuer itself makes them. */
function claims(nowMs: number, given: Record<string, unknown> = {}): Record<string, unknown> {
  const nowS = Math.floor(nowMs / 1_000)
  const usual = { iss: issuerUrl, aud: 'flotilla', sub: 'agent_a', user_id: 'agent_a', auth_time: nowS }
  return { ...usual, iat: nowS, exp: nowS + 3_600, ...given }
}

async function signed(installation: Installation, payload: Record<string, unknown>, kid?: string) {
  const key = await storedKey(installation)
  return new SignJWT(payload)
    .setProtectedHeader({ alg: 'ES256', kid: kid ?? key.kid })
    .sign(await importJWK(key.private, 'ES256'))
}

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('refused tokens', () => {
  test.each<[string, Record<string, unknown>, string]>([
    ['a good one', {}, 'accepted'],
    ['one of another audience', { aud: 'another' }, 'unauthorized'],
    ['one of several audiences without ours', { aud: ['a', 'b'] }, 'unauthorized'],
    ['one of another issuer', { iss: 'http://127.0.0.1:8081/' }, 'unauthorized'],
    ['one from the future', { iat: start / 1_000 + 301, exp: start / 1_000 + 9_000 }, 'unauthorized'],
    ['one from a clock five minutes ahead', { iat: start / 1_000 + 299 }, 'accepted'],
    ['one that counts later', { nbf: start / 1_000 + 600 }, 'unauthorized'],
    ['one whose bearer signs in later', { auth_time: start / 1_000 + 600 }, 'unauthorized'],
    ['one without a time of signing in', { auth_time: undefined }, 'unauthorized'],
    ['one that runs out now', { exp: start / 1_000 }, 'token_expired'],
    ['one that ran out', { exp: start / 1_000 - 1 }, 'token_expired'],
    ['one without an end', { exp: undefined }, 'unauthorized'],
    ['one without a beginning', { iat: undefined }, 'unauthorized'],
    ['one without a subject', { sub: undefined }, 'unauthorized'],
  ])('%s', async (_what, given, expected) => {
    const installation = createInstallation()
    const issuer = await openInstance(installation, { now: () => start })
    const token = await signed(installation, claims(start, given))
    expect(await codeOf(issuer.verifyIdToken(token))).toBe(expected)
  })

  test('unsigned ones, those of another algorithm, of a wrong key, of another installation', async () => {
    const installation = createInstallation()
    const issuer = await openInstance(installation)
    const { kid } = await storedKey(installation)
    const body = part(claims(Date.now()))
    const [published] = issuer.jwks().keys
    const publicPem = await exportSPKI((await importJWK(published!, 'ES256', { extractable: true })) as never)
    const headed = `${part({ alg: 'HS256', kid })}.${body}`
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const other = createInstallation()
    await openInstance(other)
    const tokens = {
      none: `${part({ alg: 'none' })}.${body}.`,
      'none with a key': `${part({ alg: 'none', kid })}.${body}.`,
      None: `${part({ alg: 'None', kid })}.${body}.`,
      'the public key as a secret': `${headed}.${createHmac('sha256', publicPem).update(headed).digest('base64url')}`,
      'a wrong key under our name': await new SignJWT(claims(Date.now()))
        .setProtectedHeader({ alg: 'ES256', kid })
        .sign(privateKey),
      'a key that comes along': await new SignJWT(claims(Date.now()))
        .setProtectedHeader({ alg: 'ES256', kid: 'x', jwk: published! as never })
        .sign(privateKey),
      'another installation': await signed(other, claims(Date.now())),
      'no name of a key': await signed(installation, claims(Date.now()), ''),
    }
    for (const [what, token] of Object.entries(tokens)) {
      expect([what, await codeOf(issuer.verifyIdToken(token))]).toEqual([what, 'unauthorized'])
    }
  })

  test('a token that was accepted once is looked at again: it runs out', async () => {
    let now = start
    const issuer = await openInstance(createInstallation(), { now: () => now })
    const { idToken } = await issuer.signIn('agent_a', {}, 600)
    expect(await codeOf(issuer.verifyIdToken(idToken))).toBe('accepted')
    now += 599_000
    expect(await codeOf(issuer.verifyIdToken(idToken))).toBe('accepted')
    now += 1_000
    expect(await codeOf(issuer.verifyIdToken(idToken))).toBe('token_expired')
  })

  test('a huge token is refused unread', async () => {
    const issuer = await openInstance(createInstallation())
    expect(await codeOf(issuer.verifyIdToken(`${'a'.repeat(10_000)}.b.c`))).toBe('unauthorized')
  })
})

describe('keys', () => {
  test('are replaced after a month; tokens of the old one stay valid until they run out', async () => {
    let now = start
    const issuer = await openInstance(createInstallation(), { now: () => now })
    now = start + 30 * dayMs - 1_000
    const old = await issuer.signIn('agent_a', {})
    const [first] = issuer.jwks().keys
    now += 1_000
    const fresh = await issuer.signIn('agent_a', {})
    expect(issuer.jwks().keys.map(({ kid }) => kid)).toEqual([expect.any(String), first!.kid])
    now += 3_598_000
    expect(await codeOf(issuer.verifyIdToken(old.idToken))).toBe('accepted')
    expect(await codeOf(issuer.verifyIdToken(fresh.idToken))).toBe('accepted')
  })

  test('that are gone for long open nothing, and are not published', async () => {
    let now = start
    const installation = createInstallation()
    const issuer = await openInstance(installation, { now: () => now })
    const { kid } = await storedKey(installation)
    const endless = await signed(installation, claims(start, { exp: start / 1_000 + 90 * 86_400 }))
    expect(await codeOf(issuer.verifyIdToken(endless))).toBe('accepted')
    await issuer.rotateKeys()
    now += dayMs
    expect(await codeOf(issuer.verifyIdToken(endless))).toBe('accepted')
    now += 12 * 60_000
    // It was accepted before, and its own end is far: the key counts no more.
    expect(await codeOf(issuer.verifyIdToken(endless))).toBe('unauthorized')
    expect(issuer.jwks().keys.map((key) => key.kid)).not.toContain(kid)
  })

  test('are one for all instances, also when they start at once', async () => {
    const installation = createInstallation()
    const [one, two] = await Promise.all([openInstance(installation), openInstance(installation)])
    expect(one!.jwks()).toEqual(two!.jwks())
    const { idToken } = await one!.signIn('agent_a', {})
    expect((await two!.verifyIdToken(idToken)).uid).toBe('agent_a')
  })

  test('that another instance made are found when a token names one', async () => {
    let now = start
    const installation = createInstallation()
    const one = await openInstance(installation, { now: () => now })
    const two = await openInstance(installation, { now: () => now })
    const old = await two.signIn('agent_a', {})
    now += 5_000
    await one.rotateKeys()
    const fresh = await one.signIn('agent_b', {})
    expect((await two.verifyIdToken(fresh.idToken)).uid).toBe('agent_b')
    expect((await one.verifyIdToken(old.idToken)).uid).toBe('agent_a')
    // Within a minute an instance that signs knows of it, too.
    now += 60_000
    const next = await two.signIn('agent_c', {})
    expect(JSON.parse(Buffer.from(next.idToken.split('.')[0]!, 'base64url').toString()).kid).toBe(
      one.jwks().keys[0]!.kid,
    )
  })

  test('that nobody has cost one look a second, however many tokens name them', async () => {
    let now = start
    const installation = createInstallation()
    const issuer = await openInstance(installation, { now: () => now })
    const tokens = await Promise.all(
      Array.from({ length: 50 }, (_, n) => signed(installation, claims(start), `unknown-${n}`)),
    )
    now += 5_000
    const before = installation.reads()
    for (const token of tokens) expect(await codeOf(issuer.verifyIdToken(token))).toBe('unauthorized')
    expect(installation.reads() - before).toBe(1)
  })

  test('at hand go on while the database is away', async () => {
    let now = start
    const installation = createInstallation()
    const issuer = await openInstance(installation, { now: () => now })
    const { idToken } = await issuer.signIn('agent_a', {}, 86_400)
    installation.fault = new AppError('relational_engine_unavailable', 'away')
    now += 3_600_000
    expect(await codeOf(issuer.verifyIdToken(idToken))).toBe('accepted')
    expect(await codeOf(issuer.createCustomToken('agent_a', {}))).toBe('accepted')
    const unknown = await (async () => {
      const fault = installation.fault
      installation.fault = null
      const token = await signed(installation, claims(now), 'unknown')
      installation.fault = fault
      return token
    })()
    expect(await codeOf(issuer.verifyIdToken(unknown))).toBe('relational_engine_unavailable')
  })

  test('are published without their private half', async () => {
    const issuer = await openInstance(createInstallation())
    expect(issuer.jwks().keys).toEqual([
      {
        kty: 'EC',
        crv: 'P-256',
        x: expect.any(String),
        y: expect.any(String),
        kid: expect.any(String),
        alg: 'ES256',
        use: 'sig',
      },
    ])
  })
})

describe('clocks that differ by five minutes', () => {
  test.each([5 * 60_000, -5 * 60_000])('%i ms', async (offMs) => {
    const installation = createInstallation()
    const here = await openInstance(installation, { now: () => start })
    const there = await openInstance(installation, { now: () => start + offMs })
    const made = await there.signIn('agent_a', {})
    expect(await codeOf(here.verifyIdToken(made.idToken))).toBe('accepted')
    const { customToken } = await there.createCustomToken('agent_a', {})
    expect(await codeOf(here.exchange(customToken))).toBe('accepted')
  })
})

describe('trades', () => {
  test('a custom token runs out; one of nobody any more buys nothing', async () => {
    let now = start
    let alive = true
    const mayBuy = async () => alive
    const issuer = await openInstance(createInstallation(), { now: () => now, mayBuy })
    const { customToken } = await issuer.createCustomToken('agent_a', { agent_key: 'ak_1' })
    const { refreshToken } = await issuer.exchange(customToken)
    expect((await issuer.refresh(refreshToken)).uid).toBe('agent_a')
    alive = false
    await expect(issuer.exchange(customToken)).rejects.toThrow(/^USER_DISABLED$/)
    await expect(issuer.refresh(refreshToken)).rejects.toThrow(/^USER_DISABLED$/)
    alive = true
    now += 3_600_000
    await expect(issuer.exchange(customToken)).rejects.toThrow('INVALID_CUSTOM_TOKEN : Token has expired')
    await expect(issuer.exchange('x')).rejects.toThrow('INVALID_CUSTOM_TOKEN : Token is not valid')
    await expect(issuer.refresh('x')).rejects.toThrow(/^INVALID_REFRESH_TOKEN$/)
  })

  test('the claims of a custom token cannot replace those of the issuer', async () => {
    const issuer = await openInstance(createInstallation())
    const claims = {
      sub: 'agent_b',
      user_id: 'agent_b',
      exp: '9999999999',
      aud: 'x',
      iss: 'x',
      agent_key: 'k',
    }
    const { customToken } = await issuer.createCustomToken('agent_a', claims)
    const { idToken } = await issuer.exchange(customToken)
    expect(await issuer.verifyIdToken(idToken)).toMatchObject({
      uid: 'agent_a',
      claims: { sub: 'agent_a', user_id: 'agent_a', agent_key: 'k', iss: issuerUrl },
    })
  })

  test('a refreshed token says when its bearer signed in, and lives as long as the first', async () => {
    let now = start
    const issuer = await openInstance(createInstallation(), { now: () => now })
    const { refreshToken } = await issuer.signIn('agent_a', { session: 's' }, 600)
    now += 500_000
    const again = await issuer.refresh(refreshToken)
    expect([again.refreshToken, again.expiresInS]).toEqual([refreshToken, 600])
    expect(await issuer.verifyIdToken(again.idToken)).toMatchObject({
      authTime: start,
      issuedAt: now,
      expiresAt: now + 600_000,
      claims: { session: 's' },
    })
  })
})
