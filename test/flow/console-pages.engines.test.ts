/** Every page of the console, light and dark, wide and narrow: nothing that axe calls serious, no breach of its policy. */

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  type ConsolePlatform,
  keepPicture,
  openConsole,
  seriousFaultsOf,
  sidewaysScrollOf,
  violationsOf,
} from '../support/console.ts'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })

let platform: ConsolePlatform
beforeAll(async () => {
  platform = await openConsole()
  await seed()
})
afterAll(() => platform?.close())

/** Something for every page to show. */
async function seed(): Promise<void> {
  const token = await platform.tokenFor('admin')
  const made = async (path: string, body: object) => {
    const answer = await platform.call('POST', path, { token, body })
    expect([201, 202], answer.text).toContain(answer.status)
  }
  await made('/api/v1/agents', { agent_id: 'scout', role: 'researcher', tier: 'research-agent' })
  await made('/api/v1/agent-keys', { agent_id: 'scout', label: 'on the build machine' })
  await made('/api/v1/fleet_notes', { subject: 'Deploying the courier', body: 'It runs on two machines.' })
  await made('/api/v1/fleet_notes', { subject: 'Re: Deploying', body: 'Seen.', parent_id: 1 })
  await made('/api/v1/goals', { title: 'Every note is answered', description: 'Within a day.' })
}

/** Address → heading, and the button of each dialog that it has. */
const pages: [path: string, heading: string, dialogs?: (string | RegExp)[]][] = [
  ['', 'Overview', ['Password']],
  ['agents', 'Agents', ['Provision an agent']],
  ['agents/scout', 'scout', ['Issue a key', 'Change', 'Rotate', 'Delete']],
  ['agent-keys', 'Agent keys', ['Issue a key', /^Revoke/]],
  ['people', 'People', ['Add a person', /^Role of vera/, /^Remove vera/]],
  ['runs', 'Runs'],
  ['topics', 'Topics'],
  ['topics/agents.changes', 'agents.changes'],
  ['groups', 'Consumer groups'],
  ['groups/vector-writer', 'vector-writer'],
  ['webhooks', 'Webhook targets'],
  ['dead-letters', 'Dead letters'],
  ['search', 'Search'],
  ['search?text=courier', 'Search'],
  ['notes', 'Notes', ['Write a note']],
  ['notes/1', 'Deploying the courier', ['Reply']],
  ['goals', 'Goals', ['Set a goal']],
  ['audit', 'Who did what'],
  ['requests', 'Follow a request'],
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
    for (const [path, heading, dialogs = []] of pages) {
      await open(page, path, heading)
      await keepPicture(page, `${name}-${path.replaceAll(/[/?=]/g, '-') || 'overview'}`)
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
  })
}

async function open(page: Page, path: string, heading: string): Promise<void> {
  await page.goto(platform.consoleUrl + path)
  await page.getByRole('heading', { level: 1, name: heading }).waitFor()
  await page.getByText('Loading…').first().waitFor({ state: 'detached' })
}

async function look(page: Page, what: string, faults: Record<string, unknown>): Promise<void> {
  const found = [...(await seriousFaultsOf(page)), ...(await violationsOf(page))]
  const wider = await sidewaysScrollOf(page)
  if (wider > 0) found.push(`${wider} px too wide`)
  if (found.length > 0) faults[what] = found
}

test('an address that leads nowhere says so', async () => {
  const page = await platform.signedIn('viewer')
  await open(page, 'nowhere', 'There is no such page')
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
