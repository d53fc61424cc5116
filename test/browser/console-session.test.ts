/** Signing in to the console with a browser: first password, wrong password, a session that ends, and its content policy. */

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { createPasswords } from '#services/access/people/passwords.ts'
import { addPerson } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import {
  type ConsolePlatform,
  fillSignIn,
  keepPicture,
  openConsole,
  stepUntil,
  violationsOf,
} from '../support/console.ts'
import { tester } from '../support/people.ts'

// Each password costs a good part of a second, on a busy machine several.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 })

let platform: ConsolePlatform
beforeAll(async () => {
  platform = await openConsole()
})
afterAll(() => platform?.close())

test('a one-time password is replaced before anything else', async () => {
  const { relational } = platform.platform.engines
  const password = 'one-time-password'
  const hash = await createPasswords({ ln: 4, r: 8, p: 1 }).hash(password, 'test')
  await addPerson(
    relational,
    { email: 'new@example.com', role: 'admin', password: hash },
    notedBy(tester, 'person.add'),
  )
  const page = await platform.newPage()
  await page.goto(`${platform.consoleUrl}groups`)
  await fillSignIn(page, { email: 'new@example.com', password })
  await page.getByRole('heading', { name: 'Choose your password' }).waitFor()
  await page.getByLabel('Current password').fill(password)
  await page.getByLabel('New password', { exact: true }).fill('a password of my own')
  await page.getByLabel('New password, again').fill('another password')
  await page.getByRole('button', { name: 'Change the password' }).click()
  await page.getByText('The new passwords differ').waitFor()
  await page.getByLabel('New password, again').fill('a password of my own')
  await page.getByRole('button', { name: 'Change the password' }).click()
  // The page that was asked for at first.
  await page.getByRole('heading', { level: 1, name: 'Consumer groups' }).waitFor()
  expect(await violationsOf(page)).toEqual([])
})

test('a wrong password is refused, and an address that goes on has to wait', async () => {
  const page = await platform.newPage()
  await page.goto(platform.consoleUrl)
  for (let tries = 0; tries < 12; tries++) {
    await fillSignIn(page, { email: 'vera@example.com', password: `wrong ${tries}` })
    await page.getByRole('alert').waitFor()
    await page.getByRole('button', { name: 'Sign in' }).waitFor()
    if (await page.getByText(/Try again in/).isVisible()) break
    expect(await page.getByRole('heading', { name: 'Overview' }).count()).toBe(0)
  }
  await page.getByText(/Try again in/).waitFor()
})

test('a session outlives a reload and a second tab, and nothing of it can be read by scripts', async () => {
  const page = await platform.signedIn('viewer')
  await page.reload()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  const second = await page.context().newPage()
  await second.goto(`${platform.consoleUrl}webhooks`)
  await second.getByRole('heading', { level: 1, name: 'Webhook targets' }).waitFor()
  expect(await page.evaluate('document.cookie')).toBe('')
  await keepPicture(page, 'overview')
})

test('a session that ended elsewhere asks for the password, and goes on where it was', async () => {
  const page = await platform.signedIn('viewer')
  await page.clock.install()
  await page.goto(`${platform.consoleUrl}groups`)
  await page.getByRole('heading', { level: 1, name: 'Consumer groups' }).waitFor()
  const second = await page.context().newPage()
  await second.goto(platform.consoleUrl)
  await second.getByRole('button', { name: 'Sign out' }).click()
  await second.getByLabel('E-mail').waitFor()
  // The page notices at its next read, after five seconds of its clock.
  await stepUntil(page, 'the session has ended', () => page.getByText('Your session has ended').isVisible())
  await fillSignIn(page, platform.people.viewer)
  await page.getByRole('heading', { level: 1, name: 'Consumer groups' }).waitFor()
})

test('signing out ends the session', async () => {
  const page = await platform.signedIn('member')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('E-mail').waitFor()
  await page.reload()
  await page.getByLabel('E-mail').waitFor()
})

test('the page and its files have their headers; a missing file is 404', async () => {
  const page = await fetch(`${platform.consoleUrl}agents/scout`)
  expect(page.status).toBe(200)
  expect(page.headers.get('content-security-policy')).toContain("require-trusted-types-for 'script'")
  const text = await page.text()
  const [script] = /\/console\/assets\/[^"]+\.js/.exec(text) ?? []
  const loaded = await fetch(`${platform.baseUrl}${script}`, { headers: { 'accept-encoding': 'br' } })
  expect([loaded.status, loaded.headers.get('content-encoding')]).toEqual([200, 'br'])
  expect(loaded.headers.get('cache-control')).toContain('immutable')
  for (const missing of ['assets/none.js', 'none.js', 'assets/..%2findex.html']) {
    expect((await fetch(platform.consoleUrl + missing)).status, missing).toBe(404)
  }
  const bare = await fetch(`${platform.baseUrl}/console`, { redirect: 'manual' })
  expect([bare.status, bare.headers.get('location')]).toEqual([308, '/console/'])
})

test('the first page takes less than 200 KB of JavaScript, compressed', async () => {
  const page = await platform.newPage()
  let total = 0
  page.on('response', async (answer) => {
    if (answer.url().endsWith('.js')) total += Number(answer.headers()['content-length'])
  })
  await page.goto(platform.consoleUrl)
  await fillSignIn(page, platform.people.viewer)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  expect(total).toBeGreaterThan(10_000)
  expect(total).toBeLessThan(200 * 1_024)
})
