/** How people sign in with a browser: the first admin, the two halves of a session, and attacks on them. */

import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'
import { asking, makePerson, newBrowser, signIn } from '../support/people.ts'

// Each password costs a good part of a second, on a busy machine several.
vi.setConfig({ testTimeout: 120_000 })

let platform: MainApiPlatform
beforeAll(async () => {
  platform = await openMainApiPlatform()
})
afterAll(() => platform.close())

const buy = (half: string | undefined, headers: Record<string, string> = {}) => ({
  method: 'POST',
  headers: { ...(half === undefined ? {} : { 'x-session-half': half }), ...headers },
})

test('the first admin may only replace the one-time password, which ends other sessions and removes the file', async () => {
  const file = join(platform.platform.home, 'admin-password')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const password = readFileSync(file, 'utf8').trim()
  const admin = { email: 'admin@localhost', password }
  const other = await signIn(platform, admin)
  const { browser, ask, idToken } = await signIn(platform, { ...admin, email: 'ADMIN@localhost' })
  const me = await ask('GET', '/api/v1/me')
  expect([me.status, me.data]).toEqual([
    200,
    expect.objectContaining({ kind: 'person', role: 'admin', must_change_password: true }),
  ])
  expect(me.data.permissions).toEqual(['GET /api/v1/me', 'PUT /api/v1/me/password'])
  for (const [method, path] of [
    ['GET', '/api/v1/users'],
    ['GET', '/api/v1/agent-keys'],
    ['DELETE', '/api/v1/users/admin@localhost'],
  ] as const) {
    const refused = await ask(method, path)
    expect([path, refused.status, refused.data.code]).toEqual([path, 403, 'password_change_required'])
  }
  const change = (current: string, fresh: string) =>
    ask('PUT', '/api/v1/me/password', { current, new: fresh })
  expect((await change(password, 'short')).data).toMatchObject({ code: 'validation_failed' })
  expect((await change('not the password', 'a password of my own')).data).toMatchObject({ code: 'forbidden' })
  expect((await change(password, password)).data).toMatchObject({ code: 'conflict' })
  expect(existsSync(file)).toBe(true)
  expect((await change(password, 'a password of my own')).status).toBe(200)
  expect(existsSync(file)).toBe(false)
  expect((await ask('GET', '/api/v1/users')).status).toBe(200)
  expect((await other.ask('GET', '/api/v1/me')).status).toBe(401)
  expect((await other.browser.ask('/api/v1/session/token', buy(other.half))).status).toBe(401)
  const old = await newBrowser(platform).ask('/api/v1/session', { body: admin })
  expect([old.status, old.data.code]).toEqual([401, 'unauthorized'])
  await signIn(platform, { ...admin, password: 'a password of my own' })
  const logged = platform.lines.join('')
  for (const secret of [
    password,
    'a password of my own',
    idToken,
    browser.cookies.get('flotilla_session')!.value,
  ]) {
    expect(logged).not.toContain(secret)
  }
})

test('the cookie can do nothing alone, nor can the half; both together buy a token of ten minutes', async () => {
  const ana = await makePerson(platform, 'ana@x')
  const { browser, half } = await signIn(platform, ana)
  const line = browser.cookies.get('flotilla_session')!.line
  expect(line.split('; ').slice(1).sort()).toEqual([
    'HttpOnly',
    'Max-Age=604800',
    'Path=/api/v1/session',
    'SameSite=Strict',
  ])
  const cookieAlone = await browser.ask('/api/v1/session/token', buy(undefined))
  expect([cookieAlone.status, cookieAlone.data.code]).toEqual([401, 'unauthorized'])
  const halfAlone = await browser.ask('/api/v1/session/token', { ...buy(half), cookies: false })
  expect([halfAlone.status, halfAlone.data.code]).toEqual([401, 'unauthorized'])
  const both = await browser.ask('/api/v1/session/token', buy(half))
  expect([both.status, both.data]).toEqual([
    200,
    {
      idToken: expect.any(String),
      expiresIn: 600,
      sessionEndsAt: expect.any(String),
      person: { uid: ana.uid, email: 'ana@x', name: 'ana', role: 'member', mustChangePassword: false },
    },
  ])
  expect(both.headers.get('cache-control')).toBe('no-store')
  const claims = JSON.parse(
    Buffer.from((both.data.idToken as string).split('.')[1]!, 'base64url').toString('utf8'),
  )
  expect(claims).toMatchObject({ sub: ana.uid, session: expect.stringMatching(/^session_/) })
  expect(claims.exp - claims.iat).toBe(600)
  expect((await asking(browser, both.data.idToken as string)('GET', '/api/v1/me')).status).toBe(200)
  // The API takes no cookie, and its path keeps the browser from sending it.
  const cookie = `flotilla_session=${browser.cookies.get('flotilla_session')!.value}`
  for (const headers of [{ cookie }, { cookie, 'x-session-half': half }]) {
    const onApi = await platform.call('GET', '/api/v1/me', { headers })
    expect([onApi.status, onApi.json.code]).toEqual([401, 'unauthorized'])
  }
  const second = await signIn(platform, ana)
  expect((await browser.ask('/api/v1/session/token', buy(second.half))).status).toBe(401)
})

test('pages of another origin are refused, whatever they hold', async () => {
  const eve = await makePerson(platform, 'eve@x')
  const { browser, half } = await signIn(platform, eve)
  const own = new URL(platform.baseUrl).origin
  const foreign: Record<string, string>[] = [
    { origin: 'http://127.0.0.1:3000' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: own.replace('http:', 'https:') },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
    { origin: own, 'sec-fetch-site': 'same-site' },
  ]
  for (const headers of foreign) {
    const calls = [
      await browser.ask('/api/v1/session/token', buy(half, headers)),
      await browser.ask('/api/v1/session', { method: 'DELETE', headers }),
      await browser.ask('/api/v1/session', { body: { email: eve.email, password: eve.password }, headers }),
    ]
    expect(calls.map(({ status, data }) => [status, data.code])).toEqual(Array(3).fill([403, 'forbidden']))
  }
  for (const headers of [{ origin: own }, { origin: own, 'sec-fetch-site': 'same-origin' }]) {
    expect((await browser.ask('/api/v1/session/token', buy(half, headers))).status).toBe(200)
  }
})

test('behind a proxy with TLS the cookie is Secure and the origin is the one of the browser', async () => {
  const person = await makePerson(platform, 'tls@x')
  const proxied = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'fleet.example' }
  const { browser, half } = await signIn(platform, person, newBrowser(platform, proxied))
  expect(browser.cookies.get('flotilla_session')!.line).toContain('; Secure')
  const asked = await browser.ask('/api/v1/session/token', buy(half, { origin: 'https://fleet.example' }))
  expect(asked.status).toBe(200)
})

test('a sign-out ends the session, and its tokens as soon as the change comes', async () => {
  const { browser, half, ask } = await signIn(platform, await makePerson(platform, 'out@x'))
  expect((await ask('GET', '/api/v1/me')).status).toBe(200)
  const cookie = browser.cookies.get('flotilla_session')!
  // Cached callers are not checked again: only the change drops them.
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  onTestFinished(() => clock.mockRestore())
  const ended = await browser.ask('/api/v1/session', { method: 'DELETE' })
  expect([ended.status, ended.data, browser.cookies.has('flotilla_session')]).toEqual([
    200,
    { ended: true },
    false,
  ])
  await eventually('its tokens end', async () => (await ask('GET', '/api/v1/me')).status === 401)
  browser.cookies.set('flotilla_session', cookie)
  expect((await browser.ask('/api/v1/session/token', buy(half))).status).toBe(401)
  expect((await browser.ask('/api/v1/session', { method: 'DELETE' })).data).toEqual({ ended: false })
})

test('a wrong password and an unknown e-mail get the same answer', async () => {
  await makePerson(platform, 'known@x')
  const answers = await Promise.all(
    ['known@x', 'nobody@x', "x' OR 1=1", '\u0000@x', `${'a'.repeat(300)}@x`].map((email) =>
      newBrowser(platform).ask('/api/v1/session', { body: { email, password: 'not the password' } }),
    ),
  )
  const shown = answers.map(({ status, data: { request_id: _, ...problem }, headers }) => ({
    status,
    problem,
    challenge: headers.get('www-authenticate'),
    cookie: headers.get('set-cookie'),
  }))
  for (const one of shown) expect(one).toEqual(shown[0])
  expect(shown[0]).toMatchObject({ status: 401, problem: { code: 'unauthorized' }, cookie: null })
})

test('500 wrong passwords lock nobody else out, and are one line in the audit at first', async () => {
  const person = await makePerson(platform, 'target@x')
  const attacker = newBrowser(platform)
  const statuses: number[] = []
  for (let round = 0; round < 25; round++) {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        attacker.ask('/api/v1/session', { body: { email: 'target@x', password: `wrong ${round} ${n}` } }),
      ),
    )
    statuses.push(...answers.map(({ status }) => status))
    const late = answers.find(({ status }) => status === 429)
    if (late) {
      expect(late.data).toMatchObject({ code: 'rate_limited', retryAfter: expect.any(Number) })
      expect(late.data.retryAfter).toBeLessThanOrEqual(60)
    }
  }
  expect(statuses.filter((status) => status === 401).length).toBeLessThanOrEqual(8)
  expect(new Set(statuses)).toEqual(new Set([401, 429]))
  await signIn(platform, person)
  await eventually('a line in the audit', async () => {
    const { rows } = await platform.platform.engines.relational.query<{ target: string; count: number }>(
      `select target, count from platform.admin_actions
       where action = 'person.sign_in' and outcome = 'refused' and actor_id = $1`,
      [person.uid],
    )
    return rows.length === 1
  })
})

test.each([
  [{}, 422],
  [{ email: 'a@x' }, 422],
  [{ password: 'x' }, 422],
  [{ email: 'a@x', password: 'p', code: 'c' }, 422],
  [{ email: 7, password: 'p' }, 422],
  [{ email: 'a@x', password: 'p', more: 1 }, 422],
  [{ email: 'a@x', password: 'p'.repeat(2_000) }, 422],
  [[], 422],
  [{ code: 'never issued' }, 401],
])('%j is answered %i', async (body, status) => {
  const answer = await newBrowser(platform).ask('/api/v1/session', { body })
  expect([answer.status, typeof answer.data.code]).toEqual([status, 'string'])
})

test('without a provider the OpenID Connect paths are 404', async () => {
  for (const path of ['start', 'callback?code=x&state=y']) {
    const answer = await newBrowser(platform).ask(`/api/v1/session/oidc/${path}`)
    expect([answer.status, answer.data.code]).toEqual([404, 'not_found'])
  }
})

test('Identity Toolkit signs a person in, whose refresh token ends with a change of the password', async () => {
  const person = await makePerson(platform, 'toolkit@x')
  const toolkit = (email: string, password: string) =>
    platform.call('POST', '/identitytoolkit.googleapis.com/v1/accounts:signInWithPassword?key=any', {
      body: { email, password, returnSecureToken: true },
      headers: { 'x-forwarded-for': '10.78.0.1' },
    })
  const answer = await toolkit(person.email, person.password)
  expect([answer.status, answer.json]).toEqual([
    200,
    {
      kind: 'identitytoolkit#VerifyPasswordResponse',
      localId: person.uid,
      email: 'toolkit@x',
      displayName: 'toolkit',
      idToken: expect.any(String),
      registered: true,
      refreshToken: expect.any(String),
      expiresIn: '3600',
    },
  ])
  for (const [email, password] of [
    ['toolkit@x', 'not the password'],
    ['nobody@x', 'not the password'],
  ] as const) {
    const refused = await toolkit(email, password)
    expect([refused.status, (refused.json.error as { message: string }).message]).toEqual([
      400,
      'INVALID_LOGIN_CREDENTIALS',
    ])
  }
  const refresh = () =>
    platform.call('POST', '/securetoken.googleapis.com/v1/token?key=any', {
      body: { grant_type: 'refresh_token', refresh_token: answer.json.refreshToken },
    })
  const refreshed = await refresh()
  expect([refreshed.status, refreshed.json.user_id]).toEqual([200, person.uid])
  const looked = await platform.call('POST', '/identitytoolkit.googleapis.com/v1/accounts:lookup?key=any', {
    body: { idToken: refreshed.json.id_token },
  })
  expect(looked.json.users).toMatchObject([
    { localId: person.uid, email: 'toolkit@x', displayName: 'toolkit' },
  ])
  const { ask } = await signIn(platform, person)
  const fresh = { current: person.password, new: 'quite another password' }
  expect((await ask('PUT', '/api/v1/me/password', fresh)).status).toBe(200)
  expect((await refresh()).status).toBe(400)
  for (const token of [answer.json.idToken, refreshed.json.id_token]) {
    expect((await platform.call('GET', '/api/v1/me', { token: token as string })).status).toBe(401)
  }
})

test('an idle session buys nothing', async () => {
  const person = await makePerson(platform, 'idle@x')
  const { browser, half, ask } = await signIn(platform, person)
  const { relational } = platform.platform.engines
  await relational.query(
    "update platform.sessions set used_at = used_at - interval '13 hours' where person_uid = $1",
    [person.uid],
  )
  expect((await browser.ask('/api/v1/session/token', buy(half))).status).toBe(401)
  expect((await ask('GET', '/api/v1/me')).status).toBe(401)
})
