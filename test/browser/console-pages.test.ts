/** Behaviour of all pages of the console: wrong addresses, late and failed reads, keys, and their load. */

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  type ConsolePlatform,
  openConsole,
  seriousFaultsOf,
  sidewaysScrollOf,
  stepUntil,
  tooWideIn,
  violationsOf,
} from '../support/console.ts'
import { eventually } from '../support/eventually.ts'

// Only ends a hang.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })

let platform: ConsolePlatform
beforeAll(async () => {
  platform = await openConsole()
  await platform.provision({ agentId: 'scout' })
})
afterAll(() => platform?.close())

async function look(page: Page, what: string, faults: Record<string, unknown>): Promise<void> {
  const found = [...(await seriousFaultsOf(page)), ...(await violationsOf(page))]
  const wider = await sidewaysScrollOf(page)
  if (wider > 0) found.push(`${wider} px too wide`, ...(await tooWideIn(page)))
  if (found.length > 0) faults[what] = found
}

test('an address that leads nowhere says so', async () => {
  const page = await platform.signedIn('viewer')
  await page.goto(`${platform.consoleUrl}nowhere`)
  await page.getByRole('heading', { level: 1, name: 'There is no such page' }).waitFor()
})

const ids = ['a%2Fb', '50%', 'a%252Fb', 'https://example.com/a%20b', '..', '~..', 'a b+c']

test('an id is what it was: typed, in a link, in the address, and after a reload', async () => {
  const page = await platform.signedIn('admin')
  const field = page.getByLabel('Request id, or another one')
  for (const id of ids) {
    await page.goto(`${platform.consoleUrl}requests`)
    await field.fill(id)
    await page.getByRole('button', { name: 'Follow' }).click()
    await page.getByText('Nothing has this id').or(page.getByRole('alert')).waitFor()
    expect(await field.inputValue()).toBe(id)
    await page.reload()
    await page.getByText('Nothing has this id').or(page.getByRole('alert')).waitFor()
    expect(await field.inputValue()).toBe(id)
    await page.goto(`${platform.consoleUrl}search?in=knowledgebase&like=${encodeURIComponent(id)}`)
    await page.getByRole('region', { name: `Like ${id}`, exact: true }).waitFor()
    await page.goto(`${platform.consoleUrl}agents?q=${encodeURIComponent(id)}`)
    const filter = page.getByLabel('Filter')
    await filter.waitFor()
    expect(await filter.inputValue()).toBe(id)
    await filter.fill(`${id}%25`)
    await page.waitForURL((url) => url.searchParams.get('q') === `${id}%25`)
  }
})

test('points are listed without a question, the newest or oldest first, with their expiry', async () => {
  const client = await platform.clientOf('lister')
  await client.memory.remember('posts', [
    { text: 'Assam', payload: { updated_at: '2026-01-01' }, expires_at: '2999-01-31T12:00:00Z' },
    { text: 'Yunnan', payload: { updated_at: '2026-01-02' } },
    { text: 'Sencha' },
  ])
  await client.close()
  const page = await platform.signedIn('viewer')
  await page.goto(`${platform.consoleUrl}search`)
  await page.getByRole('link', { name: 'posts', exact: true }).click()
  const listed = page.getByRole('list', { name: 'Points' }).locator('> li')
  const areListed = async (...texts: RegExp[]) => {
    // The one without a time comes last in both orders.
    await listed.filter({ hasText: 'Sencha' }).waitFor()
    expect(await listed.allInnerTexts()).toEqual(texts.map((text) => expect.stringMatching(text)))
  }
  await areListed(/Yunnan/, /Assam/, /Sencha/)
  expect(await listed.first().innerText()).not.toContain('expires')
  await page.getByLabel('Without a text, list').selectOption('the oldest first')
  await page.getByRole('button', { name: 'Search', exact: true }).click()
  await page.getByRole('region', { name: 'Points of posts, the oldest first' }).waitFor()
  await areListed(/expires .*2999/, /Yunnan/, /Sencha/)
  expect(await violationsOf(page)).toEqual([])
})

test('a page that cannot be drawn says so, and leads on; the others stay', async () => {
  const page = await platform.signedIn('admin')
  const agents = '**/api/v1/agents'
  await page.route(agents, (route) => route.fulfill({ json: { ok: true, data: {} } }))
  const menu = page.getByRole('navigation', { name: 'Pages' })
  await menu.getByRole('link', { name: 'Agents', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'This page cannot be shown' }).waitFor()
  await page.getByRole('alert').getByText('A fault of the console').waitFor()
  expect(await seriousFaultsOf(page)).toEqual([])
  await menu.getByRole('link', { name: 'Topics' }).click()
  await page.getByRole('heading', { level: 1, name: 'Topics' }).waitFor()
  await page.goBack()
  await page.getByRole('heading', { level: 1, name: 'This page cannot be shown' }).waitFor()
  await page.unroute(agents)
  await page.getByRole('button', { name: 'Load it again' }).click()
  await page.getByRole('row', { name: /scout/ }).waitFor()
})

test('the pages mark late, failed and old data, without a serious fault', async () => {
  const page = await platform.signedIn('admin', { colorScheme: 'dark' })
  await page.clock.install()
  const faults: Record<string, unknown> = {}
  const groups = '**/api/v1/log/groups'
  const problem = {
    title: 'The log is away',
    detail: 'It does not answer.',
    code: 'log_unavailable',
    status: 503,
  }
  const fail = { status: 503, contentType: 'application/problem+json', body: JSON.stringify(problem) }
  let goOn = () => {}
  const held = new Promise<void>((resolve) => {
    goOn = resolve
  })
  await page.route(groups, async (route) => {
    await held
    await route.fulfill(fail)
  })
  await page.goto(`${platform.consoleUrl}groups`)
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark')
  await page.getByText('Loading…').waitFor()
  await look(page, 'loading', faults)
  goOn()
  const alert = page.getByRole('alert').getByText('The log is away')
  await stepUntil(page, 'it has failed', () => alert.isVisible())
  await look(page, 'failed', faults)
  await page.unroute(groups)
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('link', { name: 'vector-writer' }).waitFor()
  await page.route(groups, (route) => route.fulfill(fail))
  await stepUntil(page, 'it is stale', () => page.getByText(/^Shown as it was/).isVisible())
  await page.getByRole('link', { name: 'vector-writer' }).waitFor()
  await look(page, 'stale', faults)
  await page.goto(`${platform.consoleUrl}dead-letters?topic=fleet.events`)
  await page.getByText('None is meant by the filter').waitFor()
  await look(page, 'empty', faults)
  expect(faults).toEqual({})
})

test('with the keyboard: a page by its letters, the filter by a slash, a dialog closed gives the focus back', async () => {
  const page = await platform.signedIn('admin')
  await page.keyboard.press('g')
  await page.keyboard.press('a')
  await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor()
  await page.getByRole('row', { name: /scout/ }).waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type('nobody')
  await page.getByText('Nothing matches the filter').waitFor()
  expect(new URL(page.url()).searchParams.get('q')).toBe('nobody')
  await page.getByRole('button', { name: 'Provision an agent' }).focus()
  await page.keyboard.press('Enter')
  await page.getByLabel('Agent id').waitFor()
  expect(await page.evaluate('document.activeElement.name')).toBe('agent_id')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Provision an agent')
})

const readsOfAMinute = {
  '/api/v1/brain/state': 12,
  '/api/v1/log/groups': 12,
  '/api/v1/webhooks/targets': 12,
  '/api/v1/webhooks/attempts': 6,
  '/api/v1/dead-letters': 4,
  '/api/v1/me': 4,
  '/api/v1/log/lag': 2,
}

/** In the page: counts calls by path. The server answers each path once; it would take the minute for a moment and answer 429. */
const countCalls = `const real = globalThis.fetch
const answers = new Map()
globalThis.asked = {}
globalThis.fetch = async (request, options) => {
  const { pathname } = new URL(request.url ?? request, location.href)
  asked[pathname] = (asked[pathname] ?? 0) + 1
  if (!answers.has(pathname)) answers.set(pathname, real(request, options))
  return (await answers.get(pathname)).clone()
}`

test('an open overview asks for little: in a minute of its clock so many reads of each kind', async () => {
  const page = await platform.signedIn('viewer')
  await page.addInitScript(countCalls)
  await page.clock.install()
  await page.goto(platform.consoleUrl)
  await page.getByRole('link', { name: 'vector-writer' }).waitFor()
  await page.clock.pauseAt(await page.evaluate<number>('Date.now() + 1_000'))
  const asked = () => page.evaluate<Record<string, number>>('asked')
  await stepUntil(page, 'every part was read', async () => {
    const paths = Object.keys(await asked())
    return Object.keys(readsOfAMinute).every((path) => paths.includes(path))
  })
  const before = await asked()
  for (let second = 0; second < 60; second++) await page.clock.runFor(1_000)
  const reads = Object.entries(await asked()).map(([path, count]) => [path, count - (before[path] ?? 0)])
  expect(Object.fromEntries(reads.filter(([, count]) => count !== 0))).toEqual(readsOfAMinute)
})

test('however many records come, a tail draws four times a second, and shows a sample of at most 200', async () => {
  const page = await platform.signedIn('admin')
  await page.clock.install()
  await page.goto(`${platform.consoleUrl}topics/fleet.events?from=end`)
  await page.getByText('◐ live').waitFor()
  await page.clock.pauseAt(await page.evaluate<number>('Date.now() + 1_000'))
  const list = page.getByRole('list', { name: 'Records, the newest first' })
  const entries = list.locator('> li')
  const records = Array.from({ length: 1_000 }, (_, at) => ({
    key: Buffer.from(`flood-${at}`),
    value: Buffer.from('bad'),
  }))
  await page.evaluate(`globalThis.drawn = 0
    new MutationObserver((changes) => {
      if (changes.some(({ addedNodes }) => [...addedNodes].some((node) => node.nodeName === 'LI'))) drawn += 1
    }).observe(document.querySelector('main'), { childList: true, subtree: true })`)
  let seconds = 0
  let most = 0
  await eventually(
    'the list is full of a sample',
    async () => {
      await platform.platform.engines.eventLog.append('fleet.events', 0, records)
      await page.clock.runFor(1_000)
      seconds += 1
      most = Math.max(most, await entries.count())
      return most >= 200 && (await page.getByText(/^1 of \d/).count()) > 0
    },
    120_000,
  )
  const drawn = await page.evaluate<number>('drawn')
  expect(most).toBe(200)
  expect(drawn).toBeGreaterThan(0)
  expect(drawn).toBeLessThanOrEqual(4 * seconds)
})
