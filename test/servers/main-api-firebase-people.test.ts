/** People of a Firebase project: signed in by the platform's own routes, at the Auth emulator of firebase-tools. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addPerson } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import { emulatedProject, openAuthEmulator } from '../../scripts/servers/firebase.ts'
import type { Browser } from '../support/browser.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'
import { asking, newBrowser, tester } from '../support/people.ts'

let emulator: Awaited<ReturnType<typeof openAuthEmulator>>
let platform: MainApiPlatform
beforeAll(async () => {
  emulator = await openAuthEmulator()
  const variables = { FIREBASE_PROJECT_ID: emulatedProject, FIREBASE_AUTH_EMULATOR_HOST: emulator.host }
  // The admin library reads the emulator's address from here alone.
  Object.assign(process.env, variables)
  platform = await openMainApiPlatform({ ...variables, FIREBASE_WEB_API_KEY: 'any' })
})
afterAll(async () => {
  await platform?.close()
  await emulator?.close()
})

const password = 'a password at Firebase'

async function toolkit(call: string, body: object): Promise<Record<string, string>> {
  const answer = await fetch(`${emulator.url}/identitytoolkit.googleapis.com/v1/accounts:${call}?key=any`, {
    method: 'POST',
    // The emulator's name for an administrator.
    headers: { 'content-type': 'application/json', authorization: 'Bearer owner' },
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  expect([answer.status, text]).toEqual([200, text])
  return JSON.parse(text) as Record<string, string>
}

async function account(email: string, { verified }: { verified: boolean }): Promise<string> {
  const { localId } = await toolkit('signUp', { email, password, targetProjectId: emulatedProject })
  await toolkit('update', { localId, emailVerified: verified, targetProjectId: emulatedProject })
  return localId!
}

const add = (email: string, subject?: string) =>
  addPerson(
    platform.platform.engines.relational,
    {
      email,
      role: 'viewer',
      ...(subject === undefined
        ? {}
        : { account: { issuer: `https://securetoken.google.com/${emulatedProject}`, subject } }),
    },
    notedBy(tester, 'person.add'),
  )

const signIn = (browser: Browser, email: string, given = password) =>
  browser.ask('/api/v1/session', { body: { email, password: given } })
const buy = (browser: Browser, half: unknown) =>
  browser.ask('/api/v1/session/token', { method: 'POST', headers: { 'x-session-half': String(half) } })

test('there is no first admin: Firebase keeps the passwords', () => {
  expect(existsSync(join(platform.platform.home, 'admin-password'))).toBe(false)
})

test('a verified e-mail signs in, buys tokens of its session, and signs out', async () => {
  await account('ana@example.com', { verified: true })
  const { person } = await add('ana@example.com')
  const browser = newBrowser(platform)
  const answer = await signIn(browser, 'ana@example.com')
  expect([answer.status, answer.data.person]).toMatchObject([200, { uid: person.uid, role: 'viewer' }])
  const me = await asking(browser, answer.data.idToken as string)('GET', '/api/v1/me')
  expect([me.status, me.data]).toMatchObject([200, { uid: person.uid, kind: 'person', role: 'viewer' }])
  const bought = await buy(browser, answer.data.half)
  expect([bought.status, bought.data.expiresIn]).toEqual([200, 3_600])
  const { rows } = await platform.platform.engines.relational.query<{ provider_token: Buffer }>(
    'select provider_token from platform.sessions where person_uid = $1',
    [person.uid],
  )
  expect(rows[0]!.provider_token.length).toBeGreaterThan(30)
  expect((await browser.ask('/api/v1/session', { method: 'DELETE' })).data).toEqual({ ended: true })
})

test('an e-mail that is not verified is nobody, unless an admin named the account', async () => {
  const localId = await account('bea@example.com', { verified: false })
  const { person } = await add('bea@example.com')
  const refused = await signIn(newBrowser(platform), 'bea@example.com')
  expect([refused.status, refused.data.code]).toEqual([403, 'forbidden'])
  await platform.platform.engines.relational.query('delete from platform.people where uid = $1', [person.uid])
  await add('bea@example.com', localId)
  expect((await signIn(newBrowser(platform), 'bea@example.com')).status).toBe(200)
})

test('a wrong password, an unknown e-mail and a stranger get no session', async () => {
  await account('cora@example.com', { verified: true })
  const answers = [
    await signIn(newBrowser(platform), 'cora@example.com', 'not the password'),
    await signIn(newBrowser(platform), 'nobody@example.com'),
    await signIn(newBrowser(platform), 'cora@example.com'),
  ]
  expect(answers.map(({ status, data }) => [status, data.code])).toEqual([
    [401, 'unauthorized'],
    [401, 'unauthorized'],
    [403, 'forbidden'],
  ])
})

test('an account that was disabled at Firebase buys nothing more', async () => {
  const localId = await account('dora@example.com', { verified: true })
  await add('dora@example.com')
  const browser = newBrowser(platform)
  const { data } = await signIn(browser, 'dora@example.com')
  await toolkit('update', { localId, disableUser: true, targetProjectId: emulatedProject })
  const bought = await buy(browser, data.half)
  expect([bought.status, bought.data.code]).toEqual([401, 'unauthorized'])
  expect((await signIn(browser, 'dora@example.com')).status).toBe(401)
})

test('Firebase away: sign-in and purchases are 503 identity_unavailable', async () => {
  await account('eva@example.com', { verified: true })
  await add('eva@example.com')
  const browser = newBrowser(platform)
  const { data } = await signIn(browser, 'eva@example.com')
  await emulator.close()
  for (const answer of [await buy(browser, data.half), await signIn(browser, 'eva@example.com')]) {
    expect([answer.status, answer.data.code, answer.data.retryAfter]).toEqual([
      503,
      'identity_unavailable',
      1,
    ])
  }
})
