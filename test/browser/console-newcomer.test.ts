/** The console as the README leads a newcomer through it: an agent, a note, its search hit and a run, from `npm start` on. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { anyPorts } from '../support/any-ports.ts'
import { fillSignIn, keepPictures, openChromium, violationsOf } from '../support/console.ts'
import { eventually } from '../support/eventually.ts'
import { type Newcomer, openNewcomer } from '../support/newcomer.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

let newcomer: Newcomer
let platform: Awaited<ReturnType<Newcomer['leaveRunning']>>
let chromium: Awaited<ReturnType<typeof openChromium>>
beforeAll(async () => {
  newcomer = openNewcomer(anyPorts)
  platform = await newcomer.leaveRunning('npm start', /^first admin /m)
  chromium = await openChromium()
})
afterAll(async () => {
  await chromium?.close()
  await platform?.end()
  await newcomer?.close()
})

test('a newcomer provisions an agent, writes a note, finds it, talks to an agent and follows that, by the README alone', async () => {
  const [, consoleUrl = ''] = /^console (\S+)$/m.exec(platform.output()) ?? []
  const first = readFileSync(join(newcomer.folder, '.flotilla/admin-password'), 'utf8').trim()
  const page = await chromium.newPage({ viewport: { width: 1000, height: 620 } })
  const shots: { title: string; png: Buffer }[] = []
  const keep = async (title: string) => void shots.push({ title, png: await page.screenshot() })
  const goTo = (name: string) =>
    page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click()

  await page.goto(consoleUrl)
  await fillSignIn(page, { email: 'admin@localhost', password: first })
  const password = 'a sentence that nobody guesses'
  await page.getByLabel('Current password').fill(first)
  await page.getByLabel('New password', { exact: true }).fill(password)
  await page.getByLabel('New password, again').fill(password)
  await page.getByRole('button', { name: 'Change the password' }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()

  await goTo('Agents')
  await page.getByRole('button', { name: 'Provision an agent' }).click()
  await page.getByLabel('Agent id').fill('keeper')
  await page.getByRole('button', { name: 'Provision', exact: true }).click()
  const key = page.getByRole('dialog', { name: 'The private key of keeper' })
  await key.getByLabel('I have it').check()
  await key.getByRole('button', { name: 'Close' }).click()
  await page.getByRole('link', { name: 'keeper' }).click()
  await page.getByRole('heading', { level: 1, name: 'keeper' }).waitFor()
  await page.locator('dl.facts').waitFor()
  await keep('An agent is provisioned; its key was shown once.')

  await goTo('Notes')
  await page.getByRole('button', { name: 'Write a note' }).click()
  await page.getByLabel('Subject').fill('The lighthouse is repaired')
  await page.getByLabel('Text').fill('Its lamp burns again since Monday.')
  await page.getByRole('button', { name: 'Write', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'The lighthouse is repaired' }).waitFor()
  await page.locator('.prose', { hasText: 'Its lamp burns again since Monday.' }).waitFor()
  await keep('A note is written, and may be answered.')

  await eventually(
    'the note is found',
    async () => {
      await goTo('Search')
      await page.getByLabel('What are you looking for?').fill('Is the lighthouse repaired?')
      await page.keyboard.press('Enter')
      await page.getByRole('status').filter({ hasText: 'hit' }).waitFor()
      return (await page.getByText('The lighthouse is repaired', { exact: true }).count()) > 0
    },
    90_000,
  )
  await keep('A search finds it by what it says.')

  await goTo('Runs')
  await page.getByRole('button', { name: 'Send a message' }).click()
  const message = page.getByRole('dialog')
  await message.getByRole('textbox', { name: 'Agent' }).fill('ATLAS')
  await message.getByLabel('Message').fill('Is the lighthouse repaired? @pulse may know.')
  await message.getByRole('button', { name: 'Send', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Run of ATLAS' }).waitFor()
  await page.getByRole('img', { name: /ATLAS completed, PULSE completed/ }).waitFor()
  await page
    .getByRole('link', { name: /The lighthouse is repaired/ })
    .first()
    .waitFor()
  await keep('Two agents answer a message, each in a lane of its own.')
  expect(await violationsOf(page)).toEqual([])

  await page.getByRole('link', { name: 'Follow it through the platform' }).click()
  await page.getByText('runs.events').first().waitFor()
  await keepPictures(await chromium.newPage(), 'newcomer', shots)
})
