/** Every page of the console, light and dark, wide and narrow: nothing that axe calls serious, no breach of its policy. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  type ConsolePlatform,
  keepPicture,
  openConsoleOver,
  seriousFaultsOf,
  sidewaysScrollOf,
  tooWideIn,
  violationsOf,
} from '../support/console.ts'
import { call } from '../support/gateway-call.ts'
import { openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })

let platform: ConsolePlatform & RunsPlatform
let folder: string
let ids: { run: string; dispatch: string }
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const file = join(folder, 'targets.yaml')
  // Nobody listens there: the deliveries wait.
  const nobody = { url: 'http://127.0.0.1:9/hook', events: ['task.completed'] }
  writeFileSync(file, JSON.stringify({ targets: { nobody } }))
  platform = await openConsoleOver(await openRunsPlatform({ WEBHOOK_TARGETS_FILE: file }))
  ids = await seed()
})
afterAll(async () => {
  await platform?.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Something for every page to show. */
async function seed(): Promise<typeof ids> {
  const key = await platform.tokenFor('admin')
  const made = async (path: string, body: object) => {
    const answer = await call(platform.baseUrl, path, { method: 'POST', key, body })
    expect([201, 202], answer.text).toContain(answer.status)
    return answer.json.data as { runId: string; goalId: number }
  }
  await made('/api/v1/agents', { agent_id: 'scout', role: 'researcher', tier: 'research-agent' })
  await made('/api/v1/agent-keys', { agent_id: 'scout', label: 'on the build machine' })
  await made('/api/v1/fleet_notes', { subject: 'Deploying the courier', body: 'It runs on two machines.' })
  await made('/api/v1/fleet_notes', { subject: 'Re: Deploying', body: 'Seen.', parent_id: 1 })
  await made('/api/v1/goals', { title: 'Every note is answered', description: 'Within a day.' })
  const newMessage = { role: 'user', parts: [{ text: 'Is the lamp repaired?' }] }
  const { runId } = await made('/api/v1/runs', { appName: 'ATLAS', newMessage })
  const { goalId } = await made('/api/v1/dispatches', { message: 'Report.' })
  await made('/api/v1/webhooks/targets/nobody/test', {})
  const bad = { key: Buffer.from('bad'), value: Buffer.from('bad') }
  await platform.platform.engines.eventLog.append('audit.events', 0, [bad])
  return { run: runId, dispatch: String(goalId) }
}

/** Address → heading, and the button of each dialog that it has. */
const pages: [path: string | (() => string), heading: string | RegExp, dialogs?: (string | RegExp)[]][] = [
  ['', 'Overview', ['Password']],
  ['agents', 'Agents', ['Provision an agent']],
  ['agents/scout', 'scout', ['Issue a key', 'Change', 'Rotate', 'Delete']],
  ['agent-keys', 'Agent keys', ['Issue a key', /^Revoke/]],
  ['people', 'People', ['Add a person', /^Role of vera/, /^Remove vera/]],
  ['runs', 'Runs', ['Send a message']],
  [() => `runs/${ids.run}`, 'Run of ATLAS'],
  ['dispatches', 'Dispatches', ['Send to all agents']],
  [() => `dispatches/${ids.dispatch}`, /^Dispatch/],
  ['topics', 'Topics'],
  ['topics/agents.changes', 'agents.changes'],
  ['groups', 'Consumer groups'],
  ['groups/vector-writer', 'vector-writer'],
  ['webhooks', 'Webhook targets'],
  ['webhooks/nobody', 'nobody', ['Give up the head']],
  ['dead-letters?topic=audit.events', 'Dead letters', [/^Discard all/]],
  ['search', 'Search'],
  ['search?text=courier', 'Search'],
  ['notes', 'Notes', ['Write a note']],
  ['notes/1', 'Deploying the courier', ['Reply']],
  ['goals', 'Goals', ['Set a goal']],
  ['audit', 'Who did what'],
  [() => `goals?goal=${ids.dispatch}`, 'Goals'],
  ['requests', 'Follow a request'],
  [() => `requests/${ids.run}`, 'Follow a request'],
]

const shapes = [
  { name: 'light', options: { colorScheme: 'light' as const } },
  { name: 'dark', options: { colorScheme: 'dark' as const } },
  { name: 'narrow', options: { viewport: { width: 390, height: 844 } } },
]

for (const { name, options } of shapes) {
  test(`${name}: no page and no dialog has a serious fault`, async () => {
    const page = await platform.signedIn('admin', options)
    const faults: Record<string, unknown> = {}
    for (const [at, heading, dialogs = []] of pages) {
      const path = typeof at === 'string' ? at : at()
      await open(page, path, heading)
      await keepPicture(page, `${name}-${pictureOf(path)}`)
      await look(page, path, faults)
      for (const dialog of dialogs) {
        await page.getByRole('button', { name: dialog, exact: true }).first().click()
        await page.getByRole('dialog').waitFor()
        await look(page, `${path} ${dialog}`, faults)
        await page.keyboard.press('Escape')
        await page.getByRole('dialog').waitFor({ state: 'detached' })
      }
    }
    expect(faults).toEqual({})
    expect(await violationsOf(page)).toEqual([])
    await page.context().close()
  })
}

/** The same at every run: ids are no part of it. */
function pictureOf(path: string): string {
  return path.replace(ids.run, 'one').replace(ids.dispatch, 'one').replaceAll(/[/?=]/g, '-') || 'overview'
}

async function open(page: Page, path: string, heading: string | RegExp): Promise<void> {
  await page.goto(platform.consoleUrl + path)
  await page.getByRole('heading', { level: 1, name: heading }).waitFor()
  await page.getByText('Loading…').first().waitFor({ state: 'detached' })
}

async function look(page: Page, what: string, faults: Record<string, unknown>): Promise<void> {
  const found = [...(await seriousFaultsOf(page)), ...(await violationsOf(page))]
  const wider = await sidewaysScrollOf(page)
  if (wider > 0) found.push(`${wider} px too wide`, ...(await tooWideIn(page)))
  if (found.length > 0) faults[what] = found
}

test('an address that leads nowhere says so', async () => {
  const page = await platform.signedIn('viewer')
  await open(page, 'nowhere', 'There is no such page')
})

test('what comes late, fails, or was read a while ago says so, without a serious fault', async () => {
  const page = await platform.signedIn('admin', { colorScheme: 'dark' })
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
  await page.getByText('Loading…').waitFor()
  await look(page, 'loading', faults)
  goOn()
  await page.getByRole('alert').getByText('The log is away').waitFor()
  await look(page, 'failed', faults)
  await page.unroute(groups)
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('link', { name: 'vector-writer' }).waitFor()
  await page.route(groups, (route) => route.fulfill(fail))
  await page.getByText(/^Shown as it was/).waitFor()
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
