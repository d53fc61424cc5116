/** Runs in the console: one with a mention, live, and one that is canceled. */

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  type ConsolePlatform,
  keepPicture,
  openConsoleOver,
  seriousFaultsOf,
  sidewaysScrollOf,
  violationsOf,
} from '../support/console.ts'
import { openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 })

let platform: ConsolePlatform & RunsPlatform
beforeAll(async () => {
  platform = await openConsoleOver(await openRunsPlatform())
})
afterAll(() => platform?.close())

async function send(agent: string, text: string, role: 'member' | 'admin' = 'member') {
  const page = await platform.signedIn(role)
  await page.goto(`${platform.consoleUrl}runs`)
  await page.getByRole('button', { name: 'Send a message' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Agent').fill(agent)
  await dialog.getByLabel('Message').fill(text)
  expect(await seriousFaultsOf(page)).toEqual([])
  await dialog.getByRole('button', { name: 'Send' }).click()
  await page.getByRole('heading', { level: 1, name: `Run of ${agent}` }).waitFor()
  return page
}

test('a message that names another agent is followed live, in a lane for each', async () => {
  let goOn = () => {}
  const waited = new Promise<void>((resolve) => {
    goOn = resolve
  })
  platform.script('atlas', async function* () {
    yield { text: 'I look into it.' }
    await waited
    yield { text: 'It is repaired.' }
  })
  platform.script('pulse', () => [{ text: 'So it is.' }])
  const page = await send('ATLAS', 'Is the lamp repaired? @pulse may know.')
  await page.getByText('I look into it.').waitFor()
  await page.getByText('● completed').or(page.getByText('◐ running')).first().waitFor()
  expect(await page.getByText('It is repaired.').count()).toBe(0)
  goOn()
  await page.getByText('It is repaired.').waitFor()
  await page.getByText('So it is.').waitFor()
  await page.getByText('● completed').waitFor()
  await page.getByRole('img', { name: /ATLAS completed, PULSE completed/ }).waitFor()
  await page.getByText('3 events', { exact: true }).waitFor()
  await keepPicture(page, 'run')
  expect(await seriousFaultsOf(page)).toEqual([])
  await page.setViewportSize({ width: 390, height: 844 })
  expect(await sidewaysScrollOf(page)).toBe(0)
  expect(await violationsOf(page)).toEqual([])
})

test('times that no clock shows, and ends that are no faults, leave the page as it is', async () => {
  platform.script('atlas', () => [{ text: 'All is quiet.' }])
  const page = await send('ATLAS', 'Report.')
  await page.getByText('● completed').waitFor()
  const runId = new URL(page.url()).pathname.split('/').at(-1)
  const events = [
    { author: 'ATLAS', timestamp: 1e300, errorCode: 'STOP', content: { parts: [{ text: 'Long ago.' }] } },
    { author: 'ATLAS', timestamp: 1, errorCode: 'QUOTA', errorMessage: 'No more.' },
    { author: 'gateway', timestamp: 1, customMetadata: { run: {} } },
  ].map((event) => ({ ...event, invocationId: runId }))
  const body = events.map((event, at) => `id: ${at + 1}\ndata: ${JSON.stringify(event)}\n\n`).join('')
  await page.route('**/api/v1/runs/*/events', (route) =>
    route.fulfill({ contentType: 'text/event-stream', body }),
  )
  await page.reload()
  await page.getByText('Long ago.').waitFor()
  await page.getByText('no known time').waitFor()
  await page.getByText('STOP', { exact: true }).waitFor()
  expect(await page.locator('.fault').allInnerTexts()).toEqual(['QUOTA: No more.'])
  expect(await page.locator('circle').count()).toBe(1)
  expect(await seriousFaultsOf(page)).toEqual([])
})

test('an answer is shown as Markdown; what could do harm stays text', async () => {
  const text = [
    '# Found\n\n- [`note 1`](/console/notes/1)\n- [page](https://example.com/a)',
    '[bad](javascript:alert(1)) [other](//example.com/b) [session](/api/v1/me)',
    '![seen](https://example.com/pixel.png) <img src="https://example.com/raw.png"> <script>alert(1)</script>',
    'first line\nsecond line',
  ].join('\n\n')
  platform.script('atlas', () => [{ text }])
  const page = await send('ATLAS', 'Report in Markdown.')
  const entry = page.locator('.records .markdown')
  await entry.getByRole('heading', { level: 3, name: 'Found' }).waitFor()
  const links = await entry.getByRole('link').evaluateAll((all) => all.map((one) => one.getAttribute('href')))
  expect(links).toEqual(['/console/notes/1', 'https://example.com/a'])
  expect(await entry.locator('img, script').count()).toBe(0)
  expect(await entry.innerText()).toContain('first line\nsecond line')
  expect(await seriousFaultsOf(page)).toEqual([])
  await entry.getByRole('link', { name: 'note 1' }).click()
  expect(new URL(page.url()).pathname).toBe('/console/notes/1')
})

test('a run is canceled', async () => {
  platform.script('cipher', () => [{ text: 'This takes long.' }, { hang: true }])
  const page = await send('CIPHER', 'Is all safe?')
  await page.getByText('This takes long.').waitFor()
  await page.getByRole('button', { name: 'Cancel the run' }).click()
  await page.getByText('○ canceled').waitFor()
  expect(await page.getByRole('button', { name: 'Cancel the run' }).count()).toBe(0)
  await page.getByRole('link', { name: 'Runs', exact: true }).click()
  await page.getByRole('row', { name: /CIPHER/ }).waitFor()
  expect(await seriousFaultsOf(page)).toEqual([])
  expect(await violationsOf(page)).toEqual([])
})

test('a message to all agents: its runs, its conclusion, and from its goal to it and back', async () => {
  for (const agent of ['whale', 'pulse', 'cipher', 'atlas', 'nexus']) {
    platform.script(agent, () => [{ text: 'All is quiet.' }])
  }
  const page = await platform.signedIn('member')
  await page.goto(`${platform.consoleUrl}dispatches`)
  await page.getByRole('button', { name: 'Send to all agents' }).click()
  await page.getByRole('dialog').getByLabel('Message').fill('Report, all of you.')
  expect(await seriousFaultsOf(page)).toEqual([])
  await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click()
  await page.getByRole('heading', { level: 1, name: /^Dispatch \d+$/ }).waitFor()
  await page.getByText('All is quiet.').first().waitFor()
  await page.locator('dl.facts').getByText('● completed').waitFor({ timeout: 60_000 })
  await page.getByRole('row', { name: /WHALE/ }).waitFor()
  await page.getByRole('img', { name: /WHALE completed/ }).waitFor()
  await keepPicture(page, 'dispatch')
  expect(await seriousFaultsOf(page)).toEqual([])
  await page.getByRole('link', { name: /^goal \d+$/ }).click()
  await page.getByText('Report, all of you.').first().waitFor()
  expect(await page.getByRole('button', { name: /^Complete/ }).count()).toBe(0)
  await page.getByRole('link', { name: 'its dispatch' }).click()
  await page.getByRole('heading', { level: 1, name: /^Dispatch \d+$/ }).waitFor()
  await page.setViewportSize({ width: 390, height: 844 })
  expect(await sidewaysScrollOf(page)).toBe(0)
  expect(await violationsOf(page)).toEqual([])
})

test('a dispatch is canceled', async () => {
  platform.script('cipher', () => [{ text: 'This takes long.' }, { hang: true }])
  const page = await platform.signedIn('member')
  await page.goto(`${platform.consoleUrl}dispatches`)
  await page.getByRole('button', { name: 'Send to all agents' }).click()
  await page.getByRole('dialog').getByLabel('Message').fill('Wait for it.')
  await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click()
  await page.getByText('This takes long.').first().waitFor()
  await page.getByRole('button', { name: 'Cancel the dispatch' }).click()
  await page.locator('dl.facts').getByText('○ canceled').waitFor()
  await page.getByRole('link', { name: 'Dispatches', exact: true }).click()
  await page
    .getByRole('row', { name: /Wait for it/ })
    .getByText('○ canceled')
    .waitFor()
})
