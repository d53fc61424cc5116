/** Firebase takes connections and answers nothing: what needs it is 503, and all goes on when it is back. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addPerson } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import { emulatedProject, openAuthEmulator } from '../../scripts/servers/firebase.ts'
import { eventually } from '../support/eventually.ts'
import { type MainApiPlatform, openMainApiPlatform, trade } from '../support/main-api-platform.ts'
import { newBrowser, tester } from '../support/people.ts'
import { openSilentProxy, type SilentProxy } from '../support/silent-proxy.ts'

interface Answered {
  status: number
  headers: Headers
  text: string
}

async function expectAway(what: string, ask: () => Promise<Answered>): Promise<void> {
  const { status, headers, text } = await ask()
  expect([what, status, JSON.parse(text)]).toMatchObject([
    what,
    503,
    { code: 'identity_unavailable', retryAfter: expect.any(Number) },
  ])
  expect(headers.get('retry-after')).toMatch(/^\d+$/)
  expect(headers.getSetCookie()).toEqual([])
  expect(text).not.toMatch(/metadata|google|127\.0\.0\.1/i)
}

describe('the Auth emulator behind an address that goes silent', () => {
  let emulator: Awaited<ReturnType<typeof openAuthEmulator>>
  let proxy: SilentProxy
  let api: MainApiPlatform
  const email = 'ana@example.com'
  const password = 'a password at Firebase'
  beforeAll(async () => {
    emulator = await openAuthEmulator()
    proxy = await openSilentProxy(() => Number(new URL(emulator.url).port))
    const variables = {
      FIREBASE_PROJECT_ID: emulatedProject,
      FIREBASE_AUTH_EMULATOR_HOST: `127.0.0.1:${proxy.port}`,
    }
    // The admin library reads the emulator's address from here alone.
    Object.assign(process.env, variables)
    api = await openMainApiPlatform({ ...variables, FIREBASE_WEB_API_KEY: 'any' })
    const { localId } = await toolkit('signUp', { email, password, targetProjectId: emulatedProject })
    const account = { issuer: `https://securetoken.google.com/${emulatedProject}`, subject: localId! }
    const { relational } = api.platform.engines
    await addPerson(relational, { email, role: 'viewer', account }, notedBy(tester, 'person.add'))
  })
  afterAll(async () => {
    await api?.close()
    proxy?.close()
    await emulator?.close()
    delete process.env.FIREBASE_AUTH_EMULATOR_HOST
  })

  async function toolkit(call: string, body: object): Promise<Record<string, string>> {
    const url = `${emulator.url}/identitytoolkit.googleapis.com/v1/accounts:${call}?key=any`
    const answer = await fetch(url, {
      method: 'POST',
      // The emulator's name for an administrator.
      headers: { 'content-type': 'application/json', authorization: 'Bearer owner' },
      body: JSON.stringify(body),
    })
    return (await answer.json()) as Record<string, string>
  }

  test('tokens and sign-ins wait for it no longer than they may; keys are traded without it', async () => {
    const { key } = await api.issueKey('whale')
    const exchanged = { token: await trade(api.call, key), returnSecureToken: true }
    const { idToken } = await toolkit('signInWithCustomToken', exchanged)
    const me = () => api.call('GET', '/api/v1/me', { token: idToken! })
    expect((await me()).status).toBe(200)
    const browser = newBrowser(api)
    const signIn = () => browser.ask('/api/v1/session', { body: { email, password } })
    const { data } = await signIn()
    const half = String(data.half)
    const buy = () =>
      browser.ask('/api/v1/session/token', { method: 'POST', headers: { 'x-session-half': half } })
    expect((await buy()).status).toBe(200)

    const silence = proxy.silence('all')
    await Promise.all([
      expectAway('me', me),
      expectAway('a sign-in', () => newBrowser(api).ask('/api/v1/session', { body: { email, password } })),
      expectAway('a token of a session', buy),
    ])
    // A custom token is signed here.
    expect(await trade(api.call, key)).toEqual(expect.any(String))
    await silence.end('is lost')
    await eventually('tokens are taken again', async () => (await me()).status === 200)
    expect((await buy()).status).toBe(200)
    expect((await signIn()).status).toBe(200)
  })
})

describe('credentials without a private key, whose address does not answer', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  let server: Server
  let api: MainApiPlatform
  beforeAll(async () => {
    // Takes every request, and answers none.
    server = createServer(() => {})
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const subject = join(folder, 'subject-token')
    writeFileSync(subject, 'a token of another cloud')
    const credentials = join(folder, 'credentials.json')
    const federated = {
      type: 'external_account',
      audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/p',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      token_url: `${origin}/token`,
      credential_source: { file: subject },
    }
    writeFileSync(credentials, JSON.stringify(federated))
    process.env.GOOGLE_APPLICATION_CREDENTIALS = credentials
    api = await openMainApiPlatform({ FIREBASE_PROJECT_ID: emulatedProject })
  })
  afterAll(async () => {
    delete process.env.GOOGLE_APPLICATION_CREDENTIALS
    await api?.close()
    server?.closeAllConnections()
    server?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test('a trade of a key is 503 in time; a faulty key still gets its own error', async () => {
    const { key } = await api.issueKey('whale')
    const asked = (given: unknown) => api.call('POST', '/api/v1/auth/agent', { body: { key: given } })
    await expectAway('a trade', () => asked(key))
    expect((await asked('svc_')).status).toBe(400)
    expect((await asked(`svc_${'0'.repeat(64)}`)).status).toBe(401)
    expect(api.lines.join('')).not.toContain(key)
  })
})
