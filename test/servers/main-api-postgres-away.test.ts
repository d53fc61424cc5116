/** People while Postgres is away, cut off or silent: typed answers in time, known tokens go on, and all comes back by itself. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Browser } from '../support/browser.ts'
import { type Gate, openGate } from '../support/distributed-gate.ts'
import { eventually } from '../support/eventually.ts'
import { exchange, type MainApiPlatform, openMainApiPlatform, trade } from '../support/main-api-platform.ts'
import { makePerson, newBrowser, type SignedInBrowser, signIn, type TestPerson } from '../support/people.ts'
import { databaseUrl } from '../support/servers.ts'
import { openSilentProxy, type SilentProxy } from '../support/silent-proxy.ts'

let silent: SilentProxy
let gate: Gate
let platform: MainApiPlatform
let admin: SignedInBrowser
let ana: TestPerson
let anasPhone: Awaited<ReturnType<typeof anaByToolkit>>
let agent: { key: string; token: string }
beforeAll(async () => {
  const url = new URL(await databaseUrl())
  const port = Number(url.port)
  silent = await openSilentProxy(() => port)
  url.host = `127.0.0.1:${silent.port}`
  gate = await openGate(url.href)
  platform = await openMainApiPlatform({ DATABASE_URL: gate.url })
  admin = await signIn(platform, await makePerson(platform, 'root@x', 'admin'))
  ana = await makePerson(platform, 'ana@x')
  anasPhone = await anaByToolkit()
  const { key } = await platform.issueKey('whale', { access: 'admin' })
  // Its record drops the cached agent: all of it has to be read again afterwards.
  await eventually('the agent is published', async () => {
    const { rowCount } = await platform.platform.engines.relational.query('select 1 from platform.outbox')
    return rowCount === 0
  })
  agent = { key, token: await exchange(platform.call, await trade(platform.call, key)) }
})
afterAll(async () => {
  await platform?.close()
  gate?.cut()
  silent?.close()
})

const toolkit = (path: string, body: object) =>
  platform.call('POST', `${path}?key=any`, { body, headers: { 'x-forwarded-for': '10.79.0.1' } })
const identity = '/identitytoolkit.googleapis.com/v1/accounts'

async function anaByToolkit() {
  const { email, password } = ana
  const { json } = await toolkit(`${identity}:signInWithPassword`, {
    email,
    password,
    returnSecureToken: true,
  })
  return json as { idToken: string; refreshToken: string }
}

const buy = (browser: Browser, half: string) =>
  browser.ask('/api/v1/session/token', { method: 'POST', headers: { 'x-session-half': half } })

interface Answered {
  status: number
  headers: Headers
  text: string
}

/** Everything that only the database knows. */
function calls(): [string, () => Promise<Answered>][] {
  const { browser, half, ask } = admin
  // Without limits: every call reaches its route.
  const byAgent = async (method: string, path: string, body?: object) =>
    platform.call(method, path, { token: agent.token, ...(body ? { body } : {}) })
  const session = (body: object) => newBrowser(platform).ask('/api/v1/session', { body })
  const { email, password } = ana
  return [
    ['sign-in', () => session({ email, password })],
    ['sign-in of nobody', () => session({ email: 'nobody@x', password })],
    ['token of a session', () => buy(browser, half)],
    ['sign-out', () => browser.ask('/api/v1/session', { method: 'DELETE' })],
    ['users', () => byAgent('GET', '/api/v1/users')],
    ['a new user', () => byAgent('POST', '/api/v1/users', { email: 'new@x' })],
    ['a role', () => byAgent('PATCH', '/api/v1/users/ana@x', { role: 'admin' })],
    ['a removal', () => byAgent('DELETE', '/api/v1/users/ana@x')],
    [
      'a password',
      () => ask('PUT', '/api/v1/me/password', { current: 'the password of root', new: 'a new password' }),
    ],
    ['the audit', () => byAgent('GET', '/api/v1/audit')],
    [
      'Identity Toolkit: sign-in',
      () => toolkit(`${identity}:signInWithPassword`, { email, password, returnSecureToken: true }),
    ],
    [
      'Identity Toolkit: refresh',
      () =>
        toolkit('/securetoken.googleapis.com/v1/token', {
          grant_type: 'refresh_token',
          refresh_token: anasPhone.refreshToken,
        }),
    ],
  ]
}

const kinds: [string, () => () => Promise<void>][] = [
  [
    'cut off',
    () => {
      gate.cut()
      return () => gate.mend()
    },
  ],
  [
    'silent',
    () => {
      const time = silent.silence('all')
      return () => time.end('is lost')
    },
  ],
]

describe.each(kinds)('Postgres is %s', (_kind, takeAway) => {
  let mend: () => Promise<void>
  const me = (token: string) => platform.call('GET', '/api/v1/me', { token })
  beforeAll(async () => {
    for (const token of [admin.idToken, agent.token]) expect((await me(token)).status).toBe(200)
    await trade(platform.call, agent.key)
    mend = takeAway()
  })

  test('tokens and keys that are known go on; those of people while their 20 a second can be counted', async () => {
    for (let n = 0; n < 3; n++) expect((await me(agent.token)).status).toBe(200)
    const person = await me(admin.idToken)
    expect([200, 503]).toContain(person.status)
    if (person.status === 503) expect(person.json.code).toBe('relational_engine_unavailable')
    const traded = await platform.call('POST', '/api/v1/auth/agent', { body: { key: agent.key } })
    expect([traded.status, traded.text]).toEqual([200, traded.text])
  })

  test('calls that need it are 503, and say when to retry', async () => {
    await Promise.all(
      calls().map(async ([what, ask]) => {
        const { status, headers, text } = await ask()
        expect([what, status, JSON.parse(text)]).toMatchObject([
          what,
          503,
          { code: 'relational_engine_unavailable', retryAfter: expect.any(Number) },
        ])
        expect(headers.get('retry-after')).toMatch(/^\d+$/)
        expect(headers.getSetCookie()).toEqual([])
        expect(text).not.toMatch(/ECONN|127\.0\.0\.1|timeout exceeded/)
      }),
    )
  })

  test('when it is back all goes on, and no refused call took effect', async () => {
    await mend()
    const listed = await eventually('the users', async () => {
      const { status, data } = await admin.ask('GET', '/api/v1/users')
      return status === 200 ? data.users : undefined
    })
    const users = listed as { email: string; role: string }[]
    expect(users.map(({ email, role }) => [email, role])).toEqual(
      expect.arrayContaining([
        ['ana@x', 'member'],
        ['root@x', 'admin'],
      ]),
    )
    expect(users.map(({ email }) => email)).not.toContain('new@x')
    expect((await buy(admin.browser, admin.half)).status).toBe(200)
    // No try of that time counts as a wrong one.
    await signIn(platform, ana)
    expect((await anaByToolkit()).refreshToken).toEqual(expect.any(String))
    expect((await me(anasPhone.idToken)).status).toBe(200)
  })
})
