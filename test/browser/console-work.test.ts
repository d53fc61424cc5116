/** People at work with the console, in a browser: agents, notes, search, dead letters, lag, and permissions. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { createClient } from '#client/client.ts'
import { createWebhookClient } from '#client/webhooks.ts'
import { partitionOf } from '#lib/murmur2.ts'
import {
  type ConsolePlatform,
  fillSignIn,
  keepPicture,
  openConsole,
  stepUntil,
  violationsOf,
} from '../support/console.ts'
import { eventually } from '../support/eventually.ts'
import { makePerson } from '../support/people.ts'
import { openWebhookSink, type WebhookSink } from '../support/webhook-sink.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 240_000 })

let platform: ConsolePlatform
let receiver: WebhookSink
let folder: string
beforeAll(async () => {
  receiver = await openWebhookSink()
  folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const file = join(folder, 'targets.yaml')
  const target = { url: `${receiver.url}/hook`, events: ['task.completed'], retry: 0, backoff_ms: 10 }
  writeFileSync(file, JSON.stringify({ targets: { receiver: target } }))
  platform = await openConsole({ WEBHOOK_TARGETS_FILE: file }, { mirror: true })
})
afterAll(async () => {
  await platform?.close()
  await receiver?.close()
  rmSync(folder, { recursive: true, force: true })
})

async function goTo(page: Page, path: string, heading: string): Promise<void> {
  await page.goto(platform.consoleUrl + path)
  await page.getByRole('heading', { level: 1, name: heading }).waitFor()
}

test('an agent is provisioned, and its key opens the vector gateway', async () => {
  const page = await platform.signedIn('admin')
  await page.clock.install()
  await goTo(page, 'agents', 'Agents')
  await page.getByRole('button', { name: 'Provision an agent' }).click()
  await page.getByLabel('Agent id').fill('whale')
  await page.getByLabel('Role').fill('analyst')
  await page.getByLabel('Tier').selectOption('research-agent')
  await page.getByLabel('Quota a day').fill('1234')
  await page.getByRole('button', { name: 'Provision', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'The private key of whale' })
  const privateKeyPem = await dialog.locator('pre').innerText()
  expect(await dialog.getByRole('button', { name: 'Close' }).isDisabled()).toBe(true)
  // It is nowhere else: Escape does not lose it.
  await page.keyboard.press('Escape')
  expect(await dialog.isVisible()).toBe(true)
  await dialog.getByRole('button', { name: 'Copy' }).click()
  await dialog.getByRole('button', { name: 'Close' }).click()
  await page.getByRole('link', { name: 'whale' }).click()
  await page.getByText('0 of 1 234').or(page.getByText('0 of 1\u2009234')).waitFor()

  const client = createClient({ vectorUrl: platform.vectorUrl, agentId: 'whale', privateKeyPem })
  await client.count('posts')
  const used = page.getByText('1 of 1\u2009234')
  await stepUntil(page, 'the call is counted', () => used.isVisible())

  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByLabel(/Type whale/).fill('whale')
  await page.getByRole('button', { name: 'Delete the agent' }).click()
  await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor()
  await expect(client.count('posts')).rejects.toThrow()
  expect(await violationsOf(page)).toEqual([])
})

test('an agent key is issued, traded for a token, and revoked', async () => {
  await platform.provision({ agentId: 'trader' })
  const page = await platform.signedIn('admin')
  await goTo(page, 'agent-keys', 'Agent keys')
  await page.getByRole('button', { name: 'Issue a key' }).click()
  await page.getByLabel('Agent id').fill('trader')
  await page.getByRole('button', { name: 'Issue', exact: true }).click()
  const key = await page.locator('dialog pre').innerText()
  const trade = () => platform.call('POST', '/api/v1/auth/agent', { body: { key } })
  expect((await trade()).status).toBe(200)
  await page.getByLabel('I have it').check()
  await page.getByRole('button', { name: 'Close' }).click()
  await page.getByRole('button', { name: /^Revoke/ }).click()
  await page.getByRole('button', { name: 'Revoke', exact: true }).click()
  await page.getByText('○ revoked').waitFor()
  expect((await trade()).status).toBe(401)
})

test('a member writes a note, answers it, and finds it', async () => {
  const page = await platform.signedIn('member')
  await goTo(page, 'notes', 'Notes')
  await page.getByRole('button', { name: 'Write a note' }).click()
  await page.getByLabel('Subject').fill('The lighthouse keeper')
  await page.getByLabel('Text').fill('Counts the ships at dusk.')
  await page.getByRole('button', { name: 'Write', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'The lighthouse keeper' }).waitFor()
  await page.getByRole('button', { name: 'Reply' }).click()
  await page.getByLabel('Text').fill('And at dawn.')
  await page.locator('dialog').getByRole('button', { name: 'Reply' }).click()
  await page.getByText('And at dawn.').waitFor()
  await page.getByRole('button', { name: 'Resolve The lighthouse keeper' }).click()
  await page.getByText('resolved').waitFor()
  await eventually(
    'it is found',
    async () => {
      await goTo(page, 'search?in=fleet_notes&text=lighthouse+keeper', 'Search')
      await page.getByRole('status').filter({ hasText: 'hit' }).waitFor()
      return (await page.getByText('The lighthouse keeper', { exact: true }).count()) > 0
    },
    90_000,
  )
  await keepPicture(page, 'search')

  await goTo(page, 'search?in=fleet_notes&text=zebra+quantum', 'Search')
  await page.getByText('Nothing found').waitFor()
  const weak = page.getByRole('list', { name: 'Weak matches, the best first' })
  expect(await weak.isVisible()).toBe(false)
  expect(await violationsOf(page)).toEqual([])
  await page.getByText(/^\d+ weak match/).click()
  expect(await weak.getByText('audit-').count()).toBe(0)
  await weak.getByText('The lighthouse keeper', { exact: true }).waitFor()
  await page.getByRole('link', { name: 'Search audit notes' }).click()
  await page.getByText('Audit notes are left out').waitFor({ state: 'detached' })
  expect(await page.getByLabel('Where').inputValue()).toBe('tags=auth')
})

test('a collection is made, described, searched by a text, and deleted by its name', async () => {
  const page = await platform.signedIn('admin')
  await goTo(page, 'search', 'Search')
  await page.getByRole('button', { name: 'Make a collection' }).click()
  await page.getByLabel('Name').fill('Tea')
  await page.getByLabel('Description').fill('What the shop knows')
  await page.getByRole('button', { name: 'Make', exact: true }).click()
  await page.getByLabel('Name').fill('tea')
  await page.getByRole('button', { name: 'Make', exact: true }).click()
  const row = page.getByRole('row').filter({ hasText: 'What the shop knows' })
  await row.waitFor()
  const client = await platform.clientOf('brewer')
  await client.memory.remember('tea', 'Sencha is brewed at 70 degrees, for two minutes.')
  await goTo(page, 'search?in=tea&text=how+many+degrees+for+sencha', 'Search')
  await page.getByText('Sencha is brewed at 70 degrees').first().waitFor()
  expect(await violationsOf(page)).toEqual([])
  await page.getByRole('button', { name: 'Delete tea' }).click()
  const dialog = page.getByRole('dialog', { name: 'Delete tea' })
  await dialog.getByRole('textbox').fill('tea')
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click()
  await row.waitFor({ state: 'detached' })
  await client.close()

  const viewer = await platform.signedIn('viewer')
  await goTo(viewer, 'search', 'Search')
  await viewer.getByRole('region', { name: 'Collections' }).getByText('almemsha').waitFor()
  expect(await viewer.getByRole('button', { name: 'Make a collection' }).count()).toBe(0)
})

/** Records that cannot be decoded: the audit-writer parks them. */
async function park(count: number): Promise<string> {
  const key = `bad-${Math.random()}`
  const records = Array.from({ length: count }, () => ({ key: Buffer.from(key), value: Buffer.from('bad') }))
  await platform.platform.engines.eventLog.append('audit.events', 0, records)
  return key
}

test('dead letters: one is replayed, the others discarded by filter, each after a dry run', async () => {
  const key = await park(3)
  const page = await platform.signedIn('admin')
  await page.clock.install()
  await goTo(page, `dead-letters?topic=audit.events&key=${key}`, 'Dead letters')
  const rows = page.locator('tbody tr')
  await stepUntil(page, 'all are listed', async () => (await rows.count()) === 3)
  await rows.first().getByRole('checkbox').check()
  await page.getByRole('button', { name: 'Replay 1 chosen one' }).click()
  await page.getByText('Dry run: 1 record would be replayed').waitFor()
  await page.getByRole('button', { name: 'Replay them' }).click()
  await page.getByText('1 replayed, 0 refused').waitFor()
  await page.getByRole('button', { name: 'Close' }).click()
  // It is parked again, because nothing was repaired.
  await page.getByRole('button', { name: 'Discard all 3' }).click()
  await page.getByText('Dry run: 3 records would be discarded').waitFor()
  await keepPicture(page, 'dead-letters-dry-run')
  await page.getByRole('button', { name: 'Discard them' }).click()
  await page.getByText('3 discarded, 0 refused').waitFor()
  await page.getByRole('button', { name: 'Close' }).click()
  await page.getByText('None is meant by the filter').waitFor()
})

test('a dry run names superseded records: the first of two with one key', async () => {
  const key = Buffer.from('note/999999')
  const bad = { key, value: Buffer.from('bad') }
  await platform.platform.engines.eventLog.append('hub.records', partitionOf(key, 12), [bad, bad])
  const page = await platform.signedIn('admin')
  await goTo(page, 'dead-letters?topic=hub.records', 'Dead letters')
  await page.getByRole('button', { name: 'Replay all 2' }).click()
  await page.getByText('1 record superseded: its key has a later one').waitFor()
  await page.getByText('Dry run: 1 record would be replayed').waitFor()
  await keepPicture(page, 'dead-letters-superseded')
})

test('lag rises while a target is down, and falls when it is back', async () => {
  const page = await platform.signedIn('admin')
  await receiver.down()
  const webhooks = createWebhookClient({ webhookUrl: platform.addresses.webhook_url as string })
  for (const task of ['1', '2', '3']) {
    await webhooks.fire({ agent: 'scout', task_id: task, event: 'task.completed', result: {} })
  }
  await goTo(page, 'groups/webhook-courier', 'webhook-courier')
  const lag = (of: string) =>
    page
      .locator('dl.facts dd')
      .nth(1)
      .filter({ hasText: new RegExp(`^${of}$`) })
  await lag('3').waitFor()
  await page.locator('dl.facts').getByText('nothing waits').waitFor({ state: 'detached' })
  await page
    .getByRole('row', { name: /3 \d+ s/ })
    .first()
    .waitFor()
  expect(await page.getByRole('columnheader', { name: 'Owner' }).count()).toBe(1)
  await page.goto(platform.consoleUrl)
  await page.getByText('1 target down').waitFor()
  await keepPicture(page, 'overview-away')
  await goTo(page, 'webhooks/receiver', 'receiver')
  await page.getByRole('region', { name: 'Head of the queue' }).getByText('task.completed').waitFor()
  await page.getByText(/It does not answer/).waitFor()
  await page
    .getByRole('region', { name: 'Settings' })
    .getByText(/127\.0\.0\.1:\d+\/…/)
    .waitFor()
  await keepPicture(page, 'target-away')
  await page.getByRole('link', { name: 'Follow it' }).click()
  await page.getByText('It is a webhook delivery').waitFor()
  await receiver.up()
  await goTo(page, 'groups/webhook-courier', 'webhook-courier')
  await lag('0').waitFor({ timeout: 90_000 })
  await page
    .getByText(/highest 3/)
    .first()
    .waitFor()
})

test('a test event is sent to a target by who may, and its attempt appears', async () => {
  const page = await platform.signedIn('member')
  await goTo(page, 'webhooks/receiver', 'receiver')
  await page.getByRole('button', { name: 'Send a test event' }).click()
  await page.getByText(/Sent as sequence \d+/).waitFor()
  await page
    .getByRole('row', { name: /success/ })
    .first()
    .waitFor()
  await page.getByRole('img', { name: /^Last hour: [1-9]\d* delivered/ }).waitFor()
  expect(await page.getByRole('button', { name: 'Give up the head' }).count()).toBe(0)
  const viewer = await platform.signedIn('viewer')
  await goTo(viewer, 'webhooks/receiver', 'receiver')
  await viewer.getByRole('region', { name: 'Settings' }).getByText('task.completed').waitFor()
  expect(await viewer.getByRole('button', { name: 'Send a test event' }).count()).toBe(0)
})

test('each role sees what it may, the server agrees, and a role that changes shows', async () => {
  const viewer = await platform.signedIn('viewer')
  const menu = viewer.getByRole('navigation', { name: 'Pages' })
  expect(await menu.getByRole('link', { name: 'People' }).count()).toBe(0)
  await goTo(viewer, 'people', 'People')
  await viewer.getByText('Your role, viewer, may not see this page').waitFor()
  await goTo(viewer, 'agents', 'Agents')
  expect(await viewer.getByRole('button', { name: 'Provision an agent' }).count()).toBe(0)
  await goTo(viewer, 'topics/agents.changes', 'agents.changes')
  await viewer.getByText('they are shown to admins').waitFor()

  const person = await makePerson(platform, 'rising@example.com', 'viewer')
  const page = await platform.newPage()
  await page.clock.install()
  await page.goto(`${platform.consoleUrl}agents`)
  await fillSignIn(page, person)
  await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor()
  const token = await platform.tokenFor('admin')
  const change = { token, body: { role: 'admin' } }
  expect((await platform.call('PATCH', `/api/v1/users/${person.uid}`, change)).status).toBe(200)
  // The page reads the role again after 15 seconds of its clock.
  const provision = page.getByRole('button', { name: 'Provision an agent' })
  await stepUntil(page, 'the new role shows', () => provision.isVisible())
  // And back, while a dialog is open: the server decides.
  await page.getByRole('button', { name: 'Provision an agent' }).click()
  await page.getByLabel('Agent id').fill('late')
  await platform.call('PATCH', `/api/v1/users/${person.uid}`, { token, body: { role: 'viewer' } })
  await page.getByRole('button', { name: 'Provision', exact: true }).click()
  await page.getByText('This needs the role admin').waitFor()
})

test('a request is followed: what it changed, its records, and that they were handled', async () => {
  const token = await platform.tokenFor('admin')
  const made = await platform.call('POST', '/api/v1/fleet_notes', {
    token,
    body: { subject: 'Followed', body: 'x' },
  })
  const id = made.headers.get('x-request-id') as string
  const page = await platform.signedIn('admin')
  await goTo(page, 'requests', 'Follow a request')
  await page.getByLabel('Request id, or another one').fill(id)
  await page.getByRole('button', { name: 'Follow' }).click()
  await page.getByText('note.create').waitFor()
  await page.getByRole('link', { name: /^hub\.records/ }).waitFor()
  await eventually(
    'the note is indexed',
    async () => {
      await page.getByRole('button', { name: 'Look again' }).click()
      return (await page.getByText('note-indexer ● handled').count()) > 0
    },
    90_000,
  )
  await page
    .getByRole('link', { name: /^vectors\.commands/ })
    .first()
    .waitFor()
  expect(await violationsOf(page)).toEqual([])
  const member = await platform.call('GET', `/api/v1/requests/${id}`, {
    token: await platform.tokenFor('member'),
  })
  expect(member.status).toBe(403)
})

test('a tail goes on without a gap when its connection is cut', async () => {
  const cut = await openCutProxy(Number(new URL(platform.baseUrl).port))
  const page = await platform.newPage()
  await page.goto(`http://127.0.0.1:${cut.port}/console/topics/hub.records?from=end&q=tailed`)
  await fillSignIn(page, platform.people.admin)
  await page.getByText('◐ live').waitFor()
  const token = await platform.tokenFor('admin')
  for (let n = 1; n <= 30; n++) {
    const body = { subject: `tailed ${n} of all`, body: 'x' }
    expect((await platform.call('POST', '/api/v1/fleet_notes', { token, body })).status).toBe(201)
    if (n === 10 || n === 20) cut.cutAll()
  }
  const entries = page.getByRole('list', { name: 'Records, the newest first' }).locator('> li')
  await eventually('all are there', async () => (await entries.count()) >= 30, 90_000)
  // Entries out of sight have no inner text.
  const texts = await entries.allTextContents()
  const numbers = texts.map((text) => Number(/tailed (\d+) of all/.exec(text)?.[1])).sort((a, b) => a - b)
  expect(numbers).toEqual(Array.from({ length: 30 }, (_, at) => at + 1))
  await keepPicture(page, 'tail')
  await cut.close()
})

/** Passes bytes on, and cuts all connections on demand. */
async function openCutProxy(target: number) {
  const sockets = new Set<Socket>()
  const server = createServer((from) => {
    const to = createConnection(target, '127.0.0.1')
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(one)
      one.on('error', () => {})
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cutAll = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    cutAll,
    async close() {
      cutAll()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
