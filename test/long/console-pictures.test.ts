/**
 * Every page and dialog of the console, light, dark and narrow: nothing that axe calls serious, no breach of its policy, no
 * sideways scrolling. Each page is loaded once; theme and width are switched in place.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  type ConsolePlatform,
  colourRules,
  keepPicture,
  openConsoleOver,
  seriousFaultsOf,
  sidewaysScrollOf,
  tooWideIn,
  violationsOf,
} from '../support/console.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

let platform: ConsolePlatform & RunsPlatform
let page: Page
let folder: string
let ids: { run: string; dispatch: string; schedule: string }
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const file = join(folder, 'targets.yaml')
  // Nobody listens there: the deliveries wait.
  const nobody = { url: 'http://127.0.0.1:9/hook', events: ['task.completed'] }
  writeFileSync(file, JSON.stringify({ targets: { nobody } }))
  platform = await openConsoleOver(await openRunsPlatform({ WEBHOOK_TARGETS_FILE: file }))
  ids = await seed()
  page = await platform.signedIn('admin')
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
    return answer.json.data as { runId: string; goalId: number; id: string }
  }
  await made('/api/v1/agents', { agent_id: 'scout', role: 'researcher', tier: 'research-agent' })
  await made('/api/v1/agent-keys', { agent_id: 'scout', label: 'on the build machine' })
  await made('/api/v1/fleet_notes', { subject: 'Deploying the courier', body: 'It runs on two machines.' })
  await made('/api/v1/fleet_notes', { subject: 'Re: Deploying', body: 'Seen.', parent_id: 1 })
  await made('/api/v1/goals', { title: 'Every note is answered', description: 'Within a day.' })
  const newMessage = { role: 'user', parts: [{ text: 'Is the lamp repaired?' }] }
  const { runId } = await made('/api/v1/runs', { appName: 'ATLAS', newMessage })
  const { goalId } = await made('/api/v1/dispatches', { message: 'Report.' })
  const daily = { agent: 'ATLAS', message: 'Any news?', cron: '30 7 * * *', name: 'mornings' }
  const { id: schedule } = await made('/api/v1/schedules', daily)
  await made('/api/v1/webhooks/targets/nobody/test', {})
  const bad = { key: Buffer.from('bad'), value: Buffer.from('bad') }
  await platform.platform.engines.eventLog.append('audit.events', 0, [bad])
  return { run: runId, dispatch: String(goalId), schedule }
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
  ['schedules', 'Schedules', ['Make a schedule']],
  [() => `schedules/${ids.schedule}`, 'Schedule', ['Delete']],
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

/** `rules`: other rules find the same in this shape as in the light one, because the elements are the same. */
const shapes = [
  { name: 'light', colorScheme: 'light', width: 1280, height: 800, rules: undefined },
  { name: 'dark', colorScheme: 'dark', width: 1280, height: 800, rules: colourRules },
  { name: 'narrow', colorScheme: 'light', width: 390, height: 844, rules: undefined },
] as const
type Shape = (typeof shapes)[number]
const narrow = shapes[2]

/** The same at every run: ids are no part of it. */
const nameOf = (path: string) =>
  path
    .replace(ids.run, 'one')
    .replace(ids.dispatch, 'one')
    .replace(ids.schedule, 'one')
    .replaceAll(/[/?=]/g, '-') || 'overview'

test.each(pages.map((entry, at) => ({ title: `${at + 1}: ${entry[1]}`, entry })))(
  'page $title has no serious fault',
  async ({ entry: [at, heading, dialogs = []] }) => {
    const faults: Record<string, unknown> = {}
    const path = typeof at === 'string' ? at : at()
    await take(shapes[0])
    await open(path, heading)
    for (const shape of shapes) {
      await take(shape)
      await keepPicture(page, `${shape.name}-${nameOf(path)}`)
      await look(shape, path, faults)
    }
    for (const dialog of dialogs) {
      // A button must be within reach on a narrow page, too.
      await take(narrow)
      await page.getByRole('button', { name: dialog, exact: true }).first().click()
      await page.getByRole('dialog').waitFor()
      for (const shape of shapes.toReversed()) {
        await take(shape)
        await look(shape, `${path} ${dialog}`, faults)
      }
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
    }
    expect(faults).toEqual({})
  },
)

/** Resolves when the page has taken theme and width, and has drawn two frames with them: charts follow in the first. */
async function take({ colorScheme, width, height }: Shape): Promise<void> {
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
  await page.setViewportSize({ width, height })
  const state = '[document.documentElement.dataset.theme, innerWidth].join()'
  const wanted = `${colorScheme},${width}`
  await eventually(wanted, async () => (await page.evaluate(state)) === wanted, 60_000)
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
}

async function open(path: string, heading: string | RegExp): Promise<void> {
  await page.goto(platform.consoleUrl + path)
  await page.getByRole('heading', { level: 1, name: heading }).waitFor()
  await page.locator('.loading').first().waitFor({ state: 'detached' })
}

async function look({ name, rules }: Shape, what: string, faults: Record<string, unknown>): Promise<void> {
  const found = [...(await seriousFaultsOf(page, rules)), ...(await violationsOf(page))]
  const wider = await sidewaysScrollOf(page)
  if (wider > 0) found.push(`${wider} px too wide`, ...(await tooWideIn(page)))
  if (found.length > 0) faults[`${what} ${name}`] = found
}
