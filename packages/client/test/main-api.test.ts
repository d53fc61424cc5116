/** Promises of the main API's client: the three stages, renewal, faults of both servers. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createMainApi, type MainApiOptions, type ProblemError } from '../src/client.ts'

const agentKey = `svc_${'ab'.repeat(32)}`

interface Sent {
  method: string
  url: URL
  token: string | undefined
  body: Record<string, unknown>
}

/** A main API in memory that signs in by itself; other calls are answered by `reply`. */
function apiOver(reply: (sent: Sent) => Response, options: Partial<MainApiOptions> = {}) {
  const sent: Sent[] = []
  let tokens = 0
  const fake = async (input: string | URL | Request, init: RequestInit = {}) => {
    const call: Sent = {
      method: init.method ?? 'GET',
      url: new URL(String(input)),
      token: new Headers(init.headers).get('authorization')?.slice('Bearer '.length),
      body: init.body ? (JSON.parse(String(init.body)) as Record<string, unknown>) : {},
    }
    sent.push(call)
    if (call.url.pathname === '/api/v1/auth/agent') {
      return Response.json({ ok: true, data: { customToken: `custom-${++tokens}`, expiresIn: 3_600 } })
    }
    if (call.url.pathname.endsWith(':signInWithCustomToken')) {
      return Response.json({ idToken: `id-of-${call.body.token}`, expiresIn: '3600' })
    }
    return reply(call)
  }
  const api = createMainApi({
    baseUrl: 'http://main.test',
    ...(options.agentKeyFile === undefined ? { agentKey } : {}),
    fetch: fake as typeof fetch,
    sleep: async () => {},
    ...options,
  })
  return { api, sent, paths: () => sent.map(({ method, url }) => `${method} ${url.pathname}`) }
}

const fine = (data: unknown) => Response.json({ ok: true, data })
const problem = (status: number, code: string) => Response.json({ code, detail: code }, { status })

test('key, custom token, ID token, call; the token is kept for the next calls', async () => {
  const { api, sent, paths } = apiOver(() => fine({ slug: 'scout' }))
  expect(await api.me()).toEqual({ slug: 'scout' })
  await Promise.all([api.me(), api.brainState()])
  expect(paths()).toEqual([
    'POST /api/v1/auth/agent',
    'POST /identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken',
    'GET /api/v1/me',
    'GET /api/v1/me',
    'GET /api/v1/brain/state',
  ])
  expect(sent[0]?.body).toEqual({ key: agentKey })
  expect(sent[1]?.body).toEqual({ token: 'custom-1', returnSecureToken: true })
  expect(sent[1]?.url.searchParams.get('key')).toBe('local')
  expect(sent[4]?.token).toBe('id-of-custom-1')
})

test('calls that begin together share one sign-in', async () => {
  const { api, paths } = apiOver(() => fine({}))
  await Promise.all([api.me(), api.me(), api.me()])
  expect(paths().filter((path) => path.startsWith('POST'))).toHaveLength(2)
})

test('an ID token is renewed when a tenth of its lifetime is left', async () => {
  let now = 0
  const { api } = apiOver(() => fine({}), { now: () => now })
  expect(await api.idToken()).toBe('id-of-custom-1')
  now = 3_239_000
  expect(await api.idToken()).toBe('id-of-custom-1')
  now = 3_241_000
  expect(await api.idToken()).toBe('id-of-custom-2')
})

test('a refused ID token is renewed once; a second refusal is thrown', async () => {
  const once = apiOver(({ token }) =>
    token === 'id-of-custom-1' ? problem(401, 'token_expired') : fine({ slug: 'scout' }),
  )
  expect(await once.api.me()).toEqual({ slug: 'scout' })
  const always = apiOver(() => problem(401, 'unauthorized'))
  await expect(always.api.me()).rejects.toMatchObject({ code: 'unauthorized', status: 401 })
  expect(always.paths().filter((path) => path === 'GET /api/v1/me')).toHaveLength(2)
})

test('another identity provider is asked at its own address with the key of the project', async () => {
  const identityExchangeUrl = 'https://identity.test/v1/accounts:signInWithCustomToken'
  const { api, sent } = apiOver(() => fine({}), { identityExchangeUrl, webApiKey: 'AIza' })
  await api.me()
  expect(sent[1]?.url.href).toBe(`${identityExchangeUrl}?key=AIza`)
})

test('a custom token that the identity provider refuses is the fault', async () => {
  const answer = { error: { code: 400, message: 'INVALID_CUSTOM_TOKEN : expired' } }
  const fake = async (input: string | URL | Request) =>
    String(input).includes('signIn')
      ? Response.json(answer, { status: 400 })
      : fine({ customToken: 'c', expiresIn: 1 })
  const api = createMainApi({ baseUrl: 'http://main.test', agentKey, fetch: fake as typeof fetch })
  const fault = (await api.me().catch((error: unknown) => error)) as ProblemError
  expect(fault).toMatchObject({ code: 'http_400', status: 400 })
  expect(fault.message).toContain('INVALID_CUSTOM_TOKEN : expired')
})

test('reads are repeated after 503; what changes something is not, unless it says so', async () => {
  let failures = 2
  const flaky = () => (failures-- > 0 ? problem(503, 'log_unavailable') : fine({ slug: 'scout' }))
  const { api } = apiOver(flaky)
  expect(await api.me()).toEqual({ slug: 'scout' })
  failures = 1
  await expect(api.request('POST', 'agents', { body: {} })).rejects.toMatchObject({ status: 503 })
  failures = 1
  expect(await api.request('DELETE', '/agents/scout', { repeatable: true })).toEqual({ slug: 'scout' })
})

test('the key may lie in a file; without one the call names the missing setting', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fl-client-'))
  try {
    const agentKeyFile = join(folder, 'agent-key')
    writeFileSync(agentKeyFile, `${agentKey}\n`)
    const { api, sent } = apiOver(() => fine({}), { agentKeyFile })
    await api.me()
    expect(sent[0]?.body).toEqual({ key: agentKey })
    await expect(createMainApi({ baseUrl: 'http://main.test' }).me()).rejects.toMatchObject({
      code: 'no_credential',
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('after close every call fails with the code closed', async () => {
  const api = createMainApi({ baseUrl: 'http://127.0.0.1:9', agentKey })
  await api.close()
  await expect(api.me()).rejects.toMatchObject({ code: 'closed' })
})
