/** Somebody guesses passwords at an address: who signed in there before, or in this browser, still gets in, and nobody else. */

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { Answered, Browser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'
import { makePerson, newBrowser, signIn, type TestPerson } from '../support/people.ts'

vi.setConfig({ testTimeout: 120_000 })

let platform: MainApiPlatform
beforeAll(async () => {
  platform = await openMainApiPlatform()
})
afterAll(() => platform.close())

let addresses = 0
/** Browsers of one office. */
function office(): () => Browser {
  addresses += 1
  const address = `192.0.2.${addresses}`
  return () => newBrowser(platform, { 'x-forwarded-for': address })
}

const enter = (browser: Browser, { email, password }: Pick<TestPerson, 'email' | 'password'>) =>
  tried(() => browser.ask('/api/v1/session', { body: { email, password } }))
/** Asks again where the address had used up its hundred requests a second: no password was looked at. */
const tried = (ask: () => Promise<Answered>) =>
  eventually('its address may ask', async () => {
    const answered = await ask()
    return answered.text.includes('requests of this address') ? undefined : answered
  })
const wrong = (email: string) => ({ email, password: 'a wrong password' })
const codes = ({ status, data }: Answered) => [status, data.code]

/** Until the address may try no more; how many were checked. */
async function guess(browser: Browser, times: number, email: (n: number) => string): Promise<number> {
  let checked = 0
  for (let n = 0; n < times; n++) {
    const { status } = await enter(browser, wrong(email(n)))
    expect([401, 429]).toContain(status)
    if (status === 401) checked++
  }
  return checked
}

async function untilRefused(browser: Browser, email: string): Promise<void> {
  for (let n = 0; n < 50; n++) if ((await enter(browser, wrong(email))).status === 429) return
  throw new Error('no guess was refused')
}

/** The tries of an address, whatever time they take: windows of a minute may move on under them. */
function expectTries(checked: number, usual: number): void {
  expect(checked).toBeGreaterThan(0)
  expect(checked).toBeLessThanOrEqual(usual * 2)
}

test('300 guesses at others, then at the own account, do not keep out a browser that signed in before', async () => {
  const admin = await makePerson(platform, 'boss@x', 'admin')
  const here = office()
  const own = await signIn(platform, admin, here())
  // Without its cookie: another browser at the same address.
  const other = here()
  const guesser = here()
  expectTries(await guess(guesser, 300, (n) => `nobody${n}@x`), 30)
  expect(codes(await enter(guesser, wrong('new@x')))).toEqual([429, 'rate_limited'])
  expect((await enter(other, admin)).status).toBe(200)
  other.cookies.clear()
  // At the account itself: what any address has, and no more.
  expectTries(await guess(guesser, 60, () => admin.email), 5)
  await eventually('who has no cookie waits like any address', async () => {
    other.cookies.clear()
    await guess(guesser, 20, () => admin.email)
    return (await enter(other, admin)).status === 429
  })
  expect((await enter(own.browser, admin)).status).toBe(200)
  const change = { current: admin.password, new: 'another password of the boss' }
  expect((await own.ask('PUT', '/api/v1/me/password', change)).status).toBe(200)
})

test('the cookie is for passwords alone, and for half a year', async () => {
  const ana = await makePerson(platform, 'ana@x')
  const { browser } = await signIn(platform, ana, office()())
  const { line, value } = browser.cookies.get('flotilla_browser')!
  expect(line.split('; ').slice(1).sort()).toEqual([
    'HttpOnly',
    'Max-Age=15552000',
    'Path=/api/v1',
    'SameSite=Lax',
  ])
  expect(value).not.toContain('ana')
  const cookie = `flotilla_browser=${value}`
  for (const path of ['/api/v1/users', '/api/v1/me']) {
    expect((await newBrowser(platform).ask(path, { headers: { cookie } })).status).toBe(401)
  }
  expect(
    (await newBrowser(platform).ask('/api/v1/session/token', { method: 'POST', headers: { cookie } })).status,
  ).toBe(401)
  expect(platform.lines.join('')).not.toContain(value)
})

test('a forged cookie, one of another account and one without the password give a guesser nothing', async () => {
  const [bea, eve] = [await makePerson(platform, 'bea@x'), await makePerson(platform, 'eve@x')]
  const here = office()
  const { browser: beas } = await signIn(platform, bea, here())
  const { browser: eves } = await signIn(platform, eve, here())
  const stolen = beas.cookies.get('flotilla_browser')!.value
  expectTries(await guess(here(), 300, (n) => `nobody-else${n}@x`), 30)
  expectTries(await guess(here(), 60, () => bea.email), 5)
  // Her own cookie lets Eve in, and not one more try at Bea's account.
  expect((await enter(eves, eve)).status).toBe(200)
  expect(await guess(eves, 20, () => bea.email)).toBeLessThanOrEqual(1)
  for (const value of [`${stolen.slice(0, -2)}AA`, 'x', '', eves.cookies.get('flotilla_browser')!.value]) {
    const headers = { cookie: `flotilla_browser=${value}` }
    // A known browser would have five tries of its own; these have what becomes free while time passes.
    const answers: unknown[] = []
    for (let n = 0; n < 4; n++) {
      await untilRefused(here(), bea.email)
      const answer = await tried(() =>
        here().ask('/api/v1/session', { body: wrong(bea.email), headers, cookies: false }),
      )
      answers.push(codes(answer))
    }
    expect([value, answers]).toEqual([value, expect.arrayContaining([[429, 'rate_limited']])])
  }
  // Stolen it is worth the five tries of a pair, at this account alone.
  const thief = newBrowser(platform, { cookie: `flotilla_browser=${stolen}` })
  expectTries(await guess(thief, 30, () => bea.email), 5)
})
