/** People for flow tests of the main API, and signing them in over HTTP. */

import { expect } from 'vitest'
import type { Access } from '#services/access/agents/agents.ts'
import { createPasswords } from '#services/access/people/passwords.ts'
import { addPerson } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import { type Browser, createBrowser } from './browser.ts'
import type { MainApiPlatform } from './main-api-platform.ts'

export interface TestPerson {
  uid: string
  email: string
  password: string
}

/** A hash of this cost takes no time. */
const cheap = createPasswords({ ln: 4, r: 8, p: 1 })
export const tester = { actor: { kind: 'command_line' as const, id: 'tester' } }

/** Has a password of their own; the first sign-in replaces its cheap hash. */
export async function makePerson(
  { platform }: Pick<MainApiPlatform, 'platform'>,
  email: string,
  role: Access = 'member',
): Promise<TestPerson> {
  const { relational } = platform.engines
  const password = `the password of ${email.split('@')[0]}`
  const { person } = await addPerson(
    relational,
    { email, role, password: await cheap.hash(password, 'test') },
    notedBy(tester, 'person.add'),
  )
  await relational.query('update platform.people set must_change_password = false where uid = $1', [
    person.uid,
  ])
  return { uid: person.uid, email, password }
}

export interface SignedInBrowser {
  browser: Browser
  idToken: string
  half: string
  /** Asks with the ID token. */
  ask(method: string, path: string, body?: unknown): ReturnType<Browser['ask']>
}

let addresses = 0
/** Each comes from an address of its own, so that the limits of one test do not meet another. */
export function newBrowser(
  { baseUrl }: Pick<MainApiPlatform, 'baseUrl'>,
  headers: Record<string, string> = {},
): Browser {
  addresses += 1
  const address = `10.77.${addresses >> 8}.${addresses & 255}`
  return createBrowser(baseUrl, { 'x-forwarded-for': address, ...headers })
}

export async function signIn(
  platform: Pick<MainApiPlatform, 'baseUrl'>,
  { email, password }: Pick<TestPerson, 'email' | 'password'>,
  browser = newBrowser(platform),
): Promise<SignedInBrowser> {
  const answer = await browser.ask('/api/v1/session', { body: { email, password } })
  expect([answer.status, answer.text]).toEqual([200, answer.text])
  const { idToken, half } = answer.data as { idToken: string; half: string }
  return { browser, idToken, half, ask: asking(browser, idToken) }
}

export function asking(browser: Browser, idToken: string): SignedInBrowser['ask'] {
  return (method, path, body) =>
    browser.ask(path, {
      method,
      headers: { authorization: `Bearer ${idToken}` },
      ...(body === undefined ? {} : { body }),
    })
}
