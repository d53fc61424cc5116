/** An agent of the real Google ADK asks for an approval; a person gives it in the console an hour later, when all clocks are on. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type AdkServer, openAdkServer } from '../../scripts/servers/adk.ts'
import { type ConsolePlatform, openConsoleOver } from '../support/console.ts'
import { call } from '../support/gateway-call.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'
import { message } from '../support/runs-platform.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 900_000 })

const folder = mkdtempSync(join(tmpdir(), 'fl-nodes-'))
let adk: AdkServer
let platform: HubPlatform & ConsolePlatform

beforeAll(async () => {
  adk = await openAdkServer()
  const file = join(folder, 'nodes.json')
  writeFileSync(file, JSON.stringify({ nodes: { pays: { url: adk.url } } }))
  platform = await openConsoleOver(await openHubPlatform({ RUN_GATEWAY_PORT: '0', RUN_NODES_FILE: file }))
})
afterAll(async () => {
  vi.useRealTimers()
  await platform?.close()
  await adk?.close()
  rmSync(folder, { recursive: true, force: true })
})

test('an approval that is given an hour later lets the run end', async () => {
  const page = await platform.signedIn('member')
  const key = await platform.keyFor('admin')
  const body = { newMessage: message('pay'), userId: platform.people.member.uid }
  const runUrl = platform.addresses.agent_gateway_url as string
  const asked = await call(runUrl, '/pays/run', { method: 'POST', key, body })
  expect(asked.headers.get('x-run-status')).toBe('input_required')
  const runId = asked.headers.get('x-run-id') as string

  // The database of the process follows: the question is an hour old.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_000, shouldAdvanceTime: true })
  await page.clock.install({ time: Date.now() })
  await page.goto(`${platform.consoleUrl}runs/${runId}`)
  const times = page.getByRole('region', { name: 'PAYS asks' }).locator('time')
  await times.first().waitFor()
  const ages = await times.evaluateAll((all) =>
    all.map((one) => Date.now() - Date.parse(one.getAttribute('datetime') ?? '')),
  )
  expect(ages[0]).toBeGreaterThan(3_500_000)
  await page.getByRole('button', { name: 'Approve' }).click()
  await page.getByText('● completed').waitFor()
  await page.getByText('Paid 7.').waitFor()
  expect(adk.marks()).toEqual([expect.stringMatching(/^paid-/)])
})
