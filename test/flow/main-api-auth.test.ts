/** The way of an agent: agent key, custom token, ID token, and what ends it. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { revokeAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { deleteAgent, updateAgent, waitUntilPublished } from '#services/access/agents/agents.ts'
import {
  exchange,
  exchangePath,
  type MainApiPlatform,
  openMainApiPlatform,
  trade,
} from '../support/main-api-platform.ts'

let api: MainApiPlatform
beforeAll(async () => {
  api = await openMainApiPlatform()
})
afterAll(() => api?.close())

const me = (token?: string) => api.call('GET', '/api/v1/me', token === undefined ? {} : { token })
const relational = () => api.platform.engines.relational

test('an agent key buys a custom token, that an ID token, and that lets its agent in', async () => {
  const { key, uid } = await api.issueKey('whale', { access: 'viewer', name: 'Whale' })
  const traded = await api.call('POST', '/api/v1/auth/agent', { body: { key } })
  expect([traded.status, traded.headers.get('cache-control')]).toEqual([200, 'no-store'])
  expect(traded.json).toEqual({
    ok: true,
    data: {
      customToken: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      expiresIn: 3_600,
      agent: { uid, slug: 'whale', name: 'Whale', role: 'viewer' },
    },
  })
  const { customToken } = traded.json.data as { customToken: string }
  const exchanged = await api.call('POST', exchangePath, {
    body: { token: customToken, returnSecureToken: true },
  })
  expect([exchanged.status, exchanged.json]).toEqual([
    200,
    {
      kind: 'identitytoolkit#VerifyCustomTokenResponse',
      isNewUser: false,
      idToken: expect.any(String),
      refreshToken: expect.any(String),
      expiresIn: '3600',
    },
  ])
  const answered = await me(exchanged.json.idToken as string)
  expect([answered.status, answered.json]).toMatchObject([
    200,
    { ok: true, data: { uid, kind: 'agent', slug: 'whale', name: 'Whale', role: 'viewer' } },
  ])
  const { permissions } = answered.json.data as { permissions: string[] }
  expect(permissions).toContain('GET /api/v1/me')
  // A search takes its question in a body, and a list its filter.
  const notGet = permissions.filter((name) => !name.startsWith('GET '))
  expect(notGet.toSorted()).toEqual([
    'POST /api/v1/collections/:collection/points',
    'POST /api/v1/collections/:collection/search',
    'PUT /api/v1/me/password',
  ])
})

test('a refresh token buys the next ID token, as JSON and as a form', async () => {
  const { key } = await api.issueKey('refresher')
  const body = { token: await trade(api.call, key) }
  const { refreshToken } = (await api.call('POST', exchangePath, { body })).json
  const path = '/securetoken.googleapis.com/v1/token?key=any'
  const json = await api.call('POST', path, {
    body: { grant_type: 'refresh_token', refresh_token: refreshToken },
  })
  const form = await api.call('POST', path, {
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: String(refreshToken),
    }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })
  for (const answer of [json, form]) {
    expect([answer.status, answer.json]).toMatchObject([
      200,
      {
        id_token: expect.any(String),
        expires_in: '3600',
        refresh_token: refreshToken,
        token_type: 'Bearer',
        user_id: expect.stringMatching(/^agent_/),
        project_id: 'flotilla',
      },
    ])
    expect((await me(answer.json.id_token as string)).status).toBe(200)
  }
  const { rows } = await relational().query('select * from platform.refresh_tokens')
  expect(JSON.stringify(rows)).not.toContain(refreshToken)
})

test.each([
  ['no key', {}],
  ['a number', { key: 7 }],
  ['null', { key: null }],
  ['a short key', { key: `svc_${'a'.repeat(63)}` }],
  ['a long key', { key: `svc_${'a'.repeat(65)}` }],
  ['upper case', { key: `svc_${'A'.repeat(64)}` }],
  ['another prefix', { key: `SVC_${'a'.repeat(64)}` }],
  ['a line break', { key: `svc_${'a'.repeat(64)}\n` }],
  ['a further field', { key: `svc_${'a'.repeat(64)}`, more: 1 }],
  ['an array', [`svc_${'a'.repeat(64)}`]],
  ['text', JSON.stringify(`svc_${'a'.repeat(64)}`)],
  ['null as body', 'null'],
])('%s is 400 invalid_agent_key', async (_what, body) => {
  const refused = await api.call('POST', '/api/v1/auth/agent', { body })
  expect([refused.status, refused.json.code]).toEqual([400, 'invalid_agent_key'])
})

test('an unknown and a revoked key get the same 401', async () => {
  const { key, id } = await api.issueKey('revoked')
  await revokeAgentKey(relational(), id)
  const [unknown, revoked] = await Promise.all(
    [`svc_${'0'.repeat(64)}`, key].map((one) =>
      api.call('POST', '/api/v1/auth/agent', { body: { key: one }, headers: { 'x-request-id': 'same' } }),
    ),
  )
  expect([unknown!.status, unknown!.json.code]).toEqual([401, 'unauthorized'])
  expect(revoked!.text).toBe(unknown!.text)
  expect(revoked!.headers.get('www-authenticate')).toBe('Bearer')
})

test('a key is traded five times at once, then 429 names the wait, from any address', async () => {
  const { key } = await api.issueKey('eager')
  const answers = []
  for (let n = 0; n < 6; n++) {
    const headers = { 'x-forwarded-for': `198.51.100.${n}` }
    answers.push(await api.call('POST', '/api/v1/auth/agent', { body: { key }, headers }))
  }
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429])
  const refused = answers[5]!
  expect(refused.json).toMatchObject({ code: 'rate_limited', retryAfter: expect.any(Number) })
  expect(refused.json.retryAfter as number).toBeGreaterThan(0)
  expect(refused.json.retryAfter as number).toBeLessThanOrEqual(6)
  expect(refused.headers.get('retry-after')).toBe(String(Math.ceil(refused.json.retryAfter as number)))
})

test('the vault keeps a hash only, and no key, token or refresh token is logged', async () => {
  const { key } = await api.issueKey('secretive')
  const customToken = await trade(api.call, key)
  const idToken = await exchange(api.call, customToken)
  await me(idToken)
  const { rows } = await relational().query('select * from platform.agent_keys')
  const kept = JSON.stringify(rows) + api.lines.join('')
  for (const secret of [key.slice(4), customToken, idToken]) expect(kept).not.toContain(secret)
})

test('revoking a key ends the tokens bought with it, and no others', async () => {
  const other = await api.idTokenOf('two-keys')
  const { key, id } = await api.issueKey('two-keys')
  const token = await exchange(api.call, await trade(api.call, key))
  expect((await me(token)).status).toBe(200)
  const { outboxId } = await revokeAgentKey(relational(), id)
  await waitUntilPublished(relational(), outboxId!)
  const refused = await me(token)
  expect([refused.status, refused.json.code]).toEqual([401, 'unauthorized'])
  expect((await me(other)).status).toBe(200)
})

test('another access acts on the next request, and a deleted agent has none', async () => {
  const token = await api.idTokenOf('changing', { access: 'viewer' })
  const keys = () => api.call('GET', '/api/v1/agent-keys', { token })
  expect((await keys()).json).toMatchObject({ status: 403, code: 'forbidden' })
  const promoted = await updateAgent(relational(), 'changing', { access: 'admin' })
  await waitUntilPublished(relational(), promoted.outboxId)
  expect((await keys()).status).toBe(200)
  const deleted = await deleteAgent(relational(), 'changing')
  await waitUntilPublished(relational(), deleted.outboxId)
  expect((await keys()).status).toBe(401)
})

test('gateway keys are for other interfaces', async () => {
  const key = await (await api.clientOf('gateway-only')).apiKey()
  expect((await me(key)).json).toMatchObject({ status: 401, code: 'unauthorized' })
  expect((await me()).headers.get('www-authenticate')).toBe('Bearer')
})

test('answers carry the rest of the limits that the interfaces share; there is no day here', async () => {
  const token = await api.idTokenOf('limited', { tier: 'agent', burst: 3 })
  const { headers } = await me(token)
  expect(headers.get('ratelimit-policy')).toBe('"second";q=3;w=1, "concurrent";q=5;qu="concurrent-requests"')
  expect(headers.get('ratelimit')).toBe('"concurrent";r=4')
  const answers = await Promise.all(Array.from({ length: 12 }, () => me(token)))
  const refused = answers.find(({ status }) => status === 429)
  expect(refused?.json).toMatchObject({ retryAfter: expect.any(Number) })
  expect(refused?.headers.get('ratelimit')).toMatch(/^"(second|concurrent)";r=0;t=\d+$/)
})
