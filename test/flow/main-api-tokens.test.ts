/** Tokens on two instances of one platform: bad ones, the end of good ones, and engines that are away. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { createRemoteJWKSet, importJWK, jwtVerify, SignJWT } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { LocalIssuer } from '#engines/identity/port.ts'
import { hashAgentKey, issueAgentKey, revokeAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { deleteAgent, updateAgent } from '#services/access/agents/agents.ts'
import { openProvider } from '#services/access/provider/provider.ts'
import { openSecrets } from '#services/access/secrets/secrets.ts'
import { openTokens, type Tokens } from '#services/access/tokens/tokens.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { exchange, type MainApiPlatform, openMainApiPlatform, trade } from '../support/main-api-platform.ts'
import { propertyRuns } from '../support/property-runs.ts'
import { openSecondMainApi, type SecondMainApi } from '../support/second-main-api.ts'

let api: MainApiPlatform
let second: SecondMainApi
let issuer: LocalIssuer
let tokens: Tokens[]
beforeAll(async () => {
  api = await openMainApiPlatform()
  second = await openSecondMainApi(api.platform)
  const { engines, publisher, log } = api.platform
  const config = { CUSTOM_TOKEN_TTL_S: 3_600 }
  const port = Number(new URL(api.baseUrl).port)
  issuer = (await openProvider({ ...api.platform, config }, () => port)) as LocalIssuer
  const parts = { ...engines, publisher, identity: issuer, log }
  tokens = [await openTokens(parts), await openTokens(parts)]
})
afterEach(() => {
  second.databaseAway = false
  second.tailsStale = false
})
afterAll(async () => {
  for (const one of tokens ?? []) await one.close()
  await second?.close()
  await api?.close()
})

const relational = () => api.platform.engines.relational
const me = (url: string, token: string) => call(url, '/api/v1/me', { key: token })
const urls = () => [api.baseUrl, second.url]
const statuses = async (token: string) =>
  Promise.all(urls().map(async (url) => (await me(url, token)).status))

async function tokenOf(agentId: string) {
  const { key, id, uid } = await api.issueKey(agentId)
  return { id, uid, token: await exchange(api.call, await trade(api.call, key)) }
}

/** Stops the clock by which cached callers are checked again: only a change drops them. */
function standStill(): void {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  onTestFinished(() => clock.mockRestore())
}
const bothRefuse = (token: string) =>
  eventually('both refuse it', async () => (await statuses(token)).every((status) => status === 401))

describe('on two instances', () => {
  test('a token is good on both', async () => {
    expect(await statuses((await tokenOf('both')).token)).toEqual([200, 200])
  })

  test('the token of a deleted agent is refused as soon as the change comes', async () => {
    const { token, uid } = await tokenOf('deleted')
    expect(await statuses(token)).toEqual([200, 200])
    standStill()
    await deleteAgent(relational(), 'deleted')
    await bothRefuse(token)
    // And it buys nothing more.
    const { rows } = await relational().query('select 1 from platform.refresh_tokens where uid = $1', [uid])
    expect(rows).toEqual([])
  })

  test('the tokens of a revoked key are refused as soon as the change comes', async () => {
    const { id, token } = await tokenOf('revoked')
    expect(await statuses(token)).toEqual([200, 200])
    standStill()
    await revokeAgentKey(relational(), id)
    await bothRefuse(token)
    const again = await revokeAgentKey(relational(), id)
    expect(again.outboxId).toBeNull()
  })

  test('open streams end with the change: deleted, revoked, another access; and no others', async () => {
    const names = ['stream-deleted', 'stream-revoked', 'stream-access', 'stream-stays']
    const made = await Promise.all(names.map(tokenOf))
    // No regular look at them: only a change ends them.
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const watched = await Promise.all(
      tokens.flatMap((one) =>
        made.map(async ({ token }) => one.watch(await one.authenticate(`Bearer ${token}`))),
      ),
    )
    expect(watched.map(({ signal }) => signal.aborted)).toEqual(Array(8).fill(false))
    // The one that stays changes first: changes come in their order.
    const changes = [
      await updateAgent(relational(), names[3]!, { name: 'Another name' }),
      await deleteAgent(relational(), names[0]!),
      await revokeAgentKey(relational(), made[1]!.id),
      await updateAgent(relational(), names[2]!, { access: 'viewer' }),
    ]
    expect(changes).toHaveLength(4)
    await eventually('the others end', () => watched.every(({ signal }, n) => n % 4 === 3 || signal.aborted))
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(watched.filter((_, n) => n % 4 === 3).map(({ signal }) => signal.aborted)).toEqual([false, false])
    for (const one of watched) one.close()
  })

  test('a stream ends with its token', async () => {
    const { uid, id } = await tokenOf('brief')
    const { idToken } = await issuer.signIn(uid, { agent_key: id }, 4)
    const caller = await tokens[0]!.authenticate(`Bearer ${idToken}`)
    const { signal } = tokens[0]!.watch(caller)
    expect(signal.aborted).toBe(false)
    await eventually('it ends', () => signal.aborted)
    expect(Date.now()).toBeGreaterThanOrEqual(caller.tokenExpiresAt! - 5)
    expect((await me(api.baseUrl, idToken)).json).toMatchObject({ status: 401, code: 'token_expired' })
  })

  test('keys are replaced while tokens live', async () => {
    const { token: old } = await tokenOf('rotating')
    await issuer.rotateKeys()
    const { uid, id } = await tokenOf('rotating')
    const fresh = await issuer.signIn(uid, { agent_key: id })
    expect(await statuses(old)).toEqual([200, 200])
    expect(await statuses(fresh.idToken)).toEqual([200, 200])
    const { json } = await call(second.url, '/.well-known/jwks.json')
    const { kid } = JSON.parse(Buffer.from(fresh.idToken.split('.')[0]!, 'base64url').toString())
    expect((json.keys as { kid: string }[]).map((key) => key.kid)).toContain(kid)
  })
})

describe('refused', () => {
  const refusalOf = async (token: string) => {
    const { status, json, headers } = await me(api.baseUrl, token)
    return [status, json.code, headers.get('www-authenticate')]
  }
  const unauthorized = [401, 'unauthorized', 'Bearer']
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

  test('tampered, unsigned, of a foreign audience, from the future, of another installation', async () => {
    const { token, uid, id } = await tokenOf('tampered')
    const [head, body, signature] = token.split('.') as [string, string, string]
    const claims = JSON.parse(Buffer.from(body, 'base64url').toString())
    const secrets = await openSecrets(relational(), api.platform.env)
    const stored = JSON.parse(String(await secrets.find('identity-signing-keys')))
    const { kid, private: jwk } = stored.keys[0]
    const sign = async (given: object) =>
      new SignJWT({ ...claims, ...given })
        .setProtectedHeader({ alg: 'ES256', kid })
        .sign(await importJWK(jwk, 'ES256'))
    const nowS = Math.floor(Date.now() / 1_000)
    const bad = [
      `${head}.${part({ ...claims, sub: 'agent_other' })}.${signature}`,
      `${head}.${part({ ...claims, agent_key: 'ak_other' })}.${signature}`,
      `${part({ alg: 'none' })}.${body}.`,
      `${part({ alg: 'none', kid })}.${body}.${signature}`,
      await sign({ aud: 'another' }),
      await sign({ iss: 'http://169.254.1.1:8081' }),
      await sign({ iat: nowS + 600, exp: nowS + 4_000 }),
      await sign({ agent_key: 'ak_other' }),
      await sign({ agent_key: 7 }),
      await sign({ agent_key: undefined }),
      await sign({ agent_key: undefined, session: 'none' }),
      await sign({ sub: 'agent_other' }),
    ]
    for (const one of bad) expect([one, await refusalOf(one)]).toEqual([one, unauthorized])
    expect(await refusalOf(await sign({ exp: nowS - 1 }))).toEqual([401, 'token_expired', 'Bearer'])
    expect((await me(api.baseUrl, await sign({}))).status).toBe(200)
    const other = await openMainApiPlatform()
    try {
      const foreign = await other.idTokenOf('tampered')
      expect(await refusalOf(foreign)).toEqual(unauthorized)
    } finally {
      await other.close()
    }
    expect((await issuer.verifyIdToken(token)).uid).toBe(uid)
    expect(id).toMatch(/^ak_[0-9a-z]{26}$/)
  })

  test('text that is no agent key, as 400; text of its shape, as 401', async () => {
    const key = fc
      .tuple(fc.constantFrom('svc_', 'svc-', 'SVC_', 'vk_live_', ''), fc.string({ maxLength: 80 }))
      .map((parts) => parts.join(''))
    const hex = fc
      .array(fc.constantFrom(...'0123456789abcdef'), { minLength: 60, maxLength: 68 })
      .map((digits) => `svc_${digits.join('')}`)
    let n = 0
    await fc.assert(
      fc.asyncProperty(fc.oneof(key, hex, fc.jsonValue()), async (value) => {
        const { status, json } = await api.call('POST', '/api/v1/auth/agent', {
          body: { key: value },
          headers: { 'x-forwarded-for': `10.9.${(n >> 8) & 255}.${n++ & 255}` },
        })
        const fits = typeof value === 'string' && /^svc_[0-9a-f]{64}$/.test(value)
        // Half a surrogate pair is no text: that is refused on every interface alike.
        const broken = /\\ud[89a-f]/.test(JSON.stringify(value))
        if (fits) expect([status, json.code]).toEqual([401, 'unauthorized'])
        else if (broken) expect([400, 422]).toContain(status)
        else expect([status, json.code]).toEqual([400, 'invalid_agent_key'])
      }),
      { numRuns: propertyRuns(300) },
    )
  })
})

test('a 401 does not say whether a key was ever issued: the same answer, after the same work', async () => {
  await api.issueKey('timed')
  const { record, key: revoked } = await issueAgentKey(relational(), { agentId: 'timed' })
  await revokeAgentKey(relational(), record.id)
  const unknown = `svc_${revoked.slice(4).split('').reverse().join('')}`
  const query = vi.spyOn(relational(), 'query')
  onTestFinished(() => query.mockRestore())
  async function workOf(key: string, address: string) {
    query.mockClear()
    const headers = { 'x-forwarded-for': address }
    const { status, json } = await api.call('POST', '/api/v1/auth/agent', { body: { key }, headers })
    // Statements about other keys meanwhile have nothing to do with it.
    const isOfKey = (params: unknown) =>
      JSON.stringify(params ?? []).includes(JSON.stringify(hashAgentKey(key)))
    // A look-up that meets a change of agents or keys is made again: each statement once.
    const statements = new Set(query.mock.calls.filter(([, params]) => isOfKey(params)).map(([text]) => text))
    return { status, code: json.code, detail: json.detail, statements: [...statements] }
  }
  for (let n = 0; n < 3; n++) {
    const work = await workOf(revoked, `10.8.0.${n}`)
    expect([work.status, work.statements]).toEqual([401, [expect.stringContaining('agent_keys')]])
    expect(await workOf(unknown, `10.8.1.${n}`)).toEqual(work)
  }
})

describe('with engines away', () => {
  test('Postgres: tokens that were seen go on, others are 503 with a wait, and all goes on by itself', async () => {
    const seen = await tokenOf('seen')
    const unseen = await tokenOf('unseen')
    const { key } = await api.issueKey('unseen')
    expect((await me(second.url, seen.token)).status).toBe(200)
    second.databaseAway = true
    expect((await me(second.url, seen.token)).status).toBe(200)
    for (const answer of [
      await me(second.url, unseen.token),
      await call(second.url, '/api/v1/auth/agent', { body: { key } }),
    ]) {
      expect([answer.status, answer.json.code]).toEqual([503, 'relational_engine_unavailable'])
      expect(answer.json.retryAfter).toBeGreaterThan(0)
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
      expect(answer.text).not.toContain('ECONNREFUSED')
    }
    second.databaseAway = false
    expect((await me(second.url, unseen.token)).status).toBe(200)
  })

  test('the log: the database is asked instead, and what ended there is refused', async () => {
    const { token, id } = await tokenOf('unheard')
    expect((await me(second.url, token)).status).toBe(200)
    second.tailsStale = true
    expect((await me(second.url, token)).status).toBe(200)
    await revokeAgentKey(relational(), id)
    expect((await me(second.url, token)).status).toBe(401)
  })
})

test('a client of OpenID Connect finds the keys and verifies a token by them', async () => {
  const { token, uid } = await tokenOf('oidc')
  const { json } = await call(api.baseUrl, '/.well-known/openid-configuration')
  expect(json.issuer).toBe(api.baseUrl)
  const keys = createRemoteJWKSet(new URL(json.jwks_uri as string))
  const { payload } = await jwtVerify(token, keys, { issuer: api.baseUrl, audience: 'flotilla' })
  expect(payload).toMatchObject({ sub: uid, user_id: uid, firebase: { sign_in_provider: 'custom' } })
})

test('the keys of the issuer are not to be read in the database', async () => {
  const { rows } = await relational().query<{ sealed: Buffer }>(
    `select sealed from platform.secrets where name = 'identity-signing-keys'`,
  )
  expect(rows[0]!.sealed.toString('latin1')).not.toMatch(/"d"|kid|ES256/)
  const { FLOTILLA_HOME } = api.platform.env
  expect(readFileSync(join(FLOTILLA_HOME!, 'secret-key'), 'utf8')).toMatch(/\S{43}/)
})

test('last use is noted, once a minute at most, and kept by the vault', async () => {
  const { key, id } = await api.issueKey('used')
  const lastUse = async () =>
    (
      await relational().query<{ last_used_at: Date | null }>(
        'select last_used_at from platform.agent_keys where id = $1',
        [id],
      )
    ).rows[0]!.last_used_at
  expect(await lastUse()).toBeNull()
  const before = Date.now()
  await trade(api.call, key)
  const first = await eventually('it is noted', lastUse)
  // The clock of the database is that of this machine, to the millisecond.
  expect(first.getTime()).toBeGreaterThanOrEqual(before - 1)
  expect(first.getTime()).toBeLessThanOrEqual(Date.now() + 1)
  await trade(api.call, key)
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  expect(await lastUse()).toEqual(first)
})
