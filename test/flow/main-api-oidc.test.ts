/** Sign-in at an OpenID Connect provider, from the first redirect to the session, and attacks on it. */

import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { addPerson, showPerson } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import type { Browser } from '../support/browser.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'
import { oidcClient, openTestProvider, type TestProvider } from '../support/oidc-provider.ts'
import { asking, makePerson, newBrowser, tester } from '../support/people.ts'

// Each password costs a good part of a second, on a busy machine several.
vi.setConfig({ testTimeout: 120_000 })

let provider: TestProvider
let platform: MainApiPlatform
beforeAll(async () => {
  provider = await openTestProvider()
  platform = await openMainApiPlatform({
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: oidcClient.id,
    OIDC_CLIENT_SECRET: oidcClient.secret,
  })
  provider.register(`${platform.baseUrl}/api/v1/session/oidc/callback`)
})
afterAll(async () => {
  await platform.close()
  await provider.close()
})

const start = '/api/v1/session/oidc/start'
const isCallback = (url: URL) => url.pathname.endsWith('/oidc/callback')
const isConsole = (url: URL) => url.pathname === '/console/'

/** The address of the callback, not yet asked. */
async function callbackOf(browser: Browser, subject: string, begin = start): Promise<URL> {
  provider.signsIn = subject
  const end = await browser.follow(begin, isCallback)
  if ('status' in end) throw new Error(`the provider answered ${end.status} ${end.text}`)
  return end.url
}

/** The code that the page finds in its fragment. */
async function codeOf(browser: Browser, subject: string): Promise<string> {
  const end = await browser.follow((await callbackOf(browser, subject)).href, isConsole)
  if ('status' in end) throw new Error(`the callback answered ${end.status} ${end.text}`)
  expect([end.url.origin, end.url.search]).toEqual([new URL(platform.baseUrl).origin, ''])
  return end.url.hash.replace('#code=', '')
}

const trade = (browser: Browser, code: string) => browser.ask('/api/v1/session', { body: { code } })

async function added(email: string, account: { subject: string } | null = null) {
  const issuer = new URL(provider.issuer).href
  const { relational } = platform.platform.engines
  const { person } = await addPerson(
    relational,
    { email, role: 'viewer', ...(account ? { account: { issuer, ...account } } : {}) },
    notedBy(tester, 'person.add'),
  )
  return person
}

test('a person added by subject signs in, and has a session like any other', async () => {
  const person = await added('sue@x', { subject: 'sub-sue' })
  const browser = newBrowser(platform)
  const code = await codeOf(browser, 'sub-sue')
  expect(browser.cookies.get('flotilla_oidc')!.line.split('; ').slice(1).sort()).toEqual([
    'HttpOnly',
    'Max-Age=600',
    'Path=/api/v1/session',
    'SameSite=Lax',
  ])
  const answer = await trade(browser, code)
  expect([answer.status, answer.data.person]).toMatchObject([200, { uid: person.uid, role: 'viewer' }])
  expect([...browser.cookies.keys()]).toContain('flotilla_session')
  expect([...browser.cookies.keys()]).not.toContain('flotilla_oidc')
  const me = await asking(browser, answer.data.idToken as string)('GET', '/api/v1/me')
  expect([me.status, me.data.email]).toEqual([200, 'sue@x'])
  const bought = await browser.ask('/api/v1/session/token', {
    method: 'POST',
    headers: { 'x-session-half': answer.data.half as string },
  })
  expect([bought.status, bought.data.expiresIn]).toEqual([200, 600])
  expect(platform.lines.join('')).not.toContain(code)
})

test('where the public address is known, the provider sends browsers there, whatever host they asked', async () => {
  const known = await openMainApiPlatform({
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: oidcClient.id,
    OIDC_CLIENT_SECRET: oidcClient.secret,
    MAIN_API_URL: 'https://fleet.example',
  })
  onTestFinished(() => known.close())
  for (const host of ['127.0.0.1', 'evil.example', 'fleet.example']) {
    const browser = newBrowser(known)
    const begun = await browser.ask(start, { headers: { 'x-forwarded-host': host } })
    const { searchParams } = new URL(begun.headers.get('location')!)
    expect(searchParams.get('redirect_uri')).toBe('https://fleet.example/api/v1/session/oidc/callback')
    expect(browser.cookies.get('flotilla_oidc')!.line).toContain('Secure')
  }
})

test('a verified e-mail links a person once; from then on the subject counts', async () => {
  const person = await added('Vera@x')
  provider.accounts['sub-vera'] = { email: 'vera@x', email_verified: true }
  const first = newBrowser(platform)
  expect((await trade(first, await codeOf(first, 'sub-vera'))).data.person).toMatchObject({ uid: person.uid })
  expect(await showPerson(platform.platform.engines.relational, person.uid)).toMatchObject({
    oidc_subject: 'sub-vera',
  })
  provider.accounts['sub-vera'] = { email: 'changed@x', email_verified: false }
  const again = newBrowser(platform)
  expect((await trade(again, await codeOf(again, 'sub-vera'))).data.person).toMatchObject({ uid: person.uid })
  // Another account with the same e-mail is not the person.
  provider.accounts['sub-thief'] = { email: 'vera@x', email_verified: true }
  const thief = newBrowser(platform)
  const refused = await thief.ask((await callbackOf(thief, 'sub-thief')).href)
  expect([refused.status, refused.data.code]).toEqual([403, 'forbidden'])
})

test.each([
  ['an e-mail that is not verified', { email: 'una@x', email_verified: false }],
  ['an e-mail of which nothing is said', { email: 'una@x' }],
  ['no e-mail', {}],
  ['an e-mail that nobody has', { email: 'nobody@x', email_verified: true }],
])('an account with %s is 403', async (_what, account) => {
  await added('una@x').catch(() => null)
  const subject = `sub-${Math.random()}`
  provider.accounts[subject] = account
  const browser = newBrowser(platform)
  const refused = await browser.ask((await callbackOf(browser, subject)).href)
  expect([refused.status, refused.data.code, refused.headers.get('location')]).toEqual([
    403,
    'forbidden',
    null,
  ])
})

test('a verified e-mail that is the uid of a person, or only looks like the e-mail, is 403', async () => {
  const person = await added('kate@example.com')
  for (const email of [person.uid, '\u212aate@example.com']) {
    provider.accounts['sub-claims'] = { email, email_verified: true }
    const browser = newBrowser(platform)
    const refused = await browser.ask((await callbackOf(browser, 'sub-claims')).href)
    expect([refused.status, refused.data.code]).toEqual([403, 'forbidden'])
  }
  const { relational } = platform.platform.engines
  expect(await showPerson(relational, person.uid)).toMatchObject({ oidc_subject: null })
})

test('a provider that says email_verified as a text is refused with a hint, and not by subject', async () => {
  await added('tess@x')
  provider.accounts['sub-tess'] = { email: 'tess@x', email_verified: 'true' }
  const browser = newBrowser(platform)
  const refused = await browser.ask((await callbackOf(browser, 'sub-tess')).href)
  expect([refused.status, refused.data.detail]).toEqual([403, expect.stringContaining('JSON value true')])
  await added('theo@x', { subject: 'sub-theo' })
  provider.accounts['sub-theo'] = { email: 'theo@x', email_verified: 'true' }
  const known = newBrowser(platform)
  expect((await trade(known, await codeOf(known, 'sub-theo'))).status).toBe(200)
})

test('a code counts once, and only in the browser that began', async () => {
  await added('cora@x', { subject: 'sub-cora' })
  const browser = newBrowser(platform)
  const code = await codeOf(browser, 'sub-cora')
  const other = newBrowser(platform)
  expect((await trade(other, code)).status).toBe(401)
  await codeOf(other, 'sub-cora')
  const foreign = await trade(other, code)
  expect([foreign.status, foreign.data.code]).toEqual([401, 'unauthorized'])
  const cookie = browser.cookies.get('flotilla_oidc')!
  expect((await trade(browser, code)).status).toBe(200)
  browser.cookies.set('flotilla_oidc', cookie)
  const replayed = await trade(browser, code)
  expect([replayed.status, replayed.data.code]).toEqual([401, 'unauthorized'])
})

test('a callback of another browser, of another start, or asked again, is 403', async () => {
  await added('sam@x', { subject: 'sub-sam' })
  const refused = async (browser: Browser, url: URL) => {
    const { status, data, headers } = await browser.ask(url.href)
    expect([status, data.code, headers.get('location')]).toEqual([403, 'forbidden', null])
  }
  const victim = newBrowser(platform)
  const attacker = newBrowser(platform)
  const attackers = await callbackOf(attacker, 'sub-sam')
  await refused(victim, attackers)
  const victims = await callbackOf(victim, 'sub-sam')
  await refused(victim, attackers)
  // The attacker's code with the victim's state, and the other way round.
  const swapped = new URL(victims)
  swapped.searchParams.set('code', attackers.searchParams.get('code')!)
  await refused(victim, swapped)
  const stateless = new URL(victims)
  stateless.searchParams.delete('state')
  await refused(victim, stateless)
  const twice = newBrowser(platform)
  const url = await callbackOf(twice, 'sub-sam')
  expect((await twice.ask(url.href)).status).toBe(302)
  await refused(twice, url)
})

test('a change by a middleman on the way to the provider is refused on the way back', async () => {
  await added('max@x', { subject: 'sub-max' })
  for (const name of ['nonce', 'code_challenge', 'state']) {
    const browser = newBrowser(platform)
    const begun = await browser.ask(start)
    const changed = new URL(begun.headers.get('location')!)
    expect(changed.searchParams.get('code_challenge_method')).toBe('S256')
    changed.searchParams.set(name, 'x'.repeat(43))
    const { status, data } = await browser.ask((await callbackOf(browser, 'sub-max', changed.href)).href)
    expect([name, status, data.code]).toEqual([name, 403, 'forbidden'])
  }
})

test('a person who declines at the provider is 403', async () => {
  const browser = newBrowser(platform)
  const begun = await browser.ask(start)
  const { searchParams } = new URL(begun.headers.get('location')!)
  const query = new URLSearchParams({
    error: 'access_denied',
    state: searchParams.get('state')!,
    iss: provider.issuer,
  })
  const { status, data } = await browser.ask(`/api/v1/session/oidc/callback?${query}`)
  expect([status, data.code]).toEqual([403, 'forbidden'])
})

test('a session of the provider ends with the person', async () => {
  const person = await added('rita@x', { subject: 'sub-rita' })
  const browser = newBrowser(platform)
  const { data } = await trade(browser, await codeOf(browser, 'sub-rita'))
  await platform.platform.engines.relational.query('delete from platform.people where uid = $1', [person.uid])
  const bought = await browser.ask('/api/v1/session/token', {
    method: 'POST',
    headers: { 'x-session-half': data.half as string },
  })
  expect(bought.status).toBe(401)
})

test('people with a password of the platform go on where there is a provider', async () => {
  const person = await makePerson(platform, 'pam@x')
  const body = { email: person.email, password: person.password }
  expect((await newBrowser(platform).ask('/api/v1/session', { body })).status).toBe(200)
})

test('a provider that does not answer is 503, and all goes on when it is back', async () => {
  await added('late@x', { subject: 'sub-late' })
  const browser = newBrowser(platform)
  const url = await callbackOf(browser, 'sub-late')
  provider.silent = true
  const away = await browser.ask(url.href)
  expect([away.status, away.data.code, away.data.retryAfter]).toEqual([503, 'identity_unavailable', 1])
  provider.silent = false
  expect((await trade(browser, await codeOf(browser, 'sub-late'))).status).toBe(200)
})
