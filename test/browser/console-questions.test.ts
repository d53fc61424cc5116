/** Questions of agents in the console: what they ask, answers of people, and those who may only look. */

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { confirmation, requestInput, responseIn } from '../support/asking-scripts.ts'
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
  platform.script('whale', confirmation)
  platform.script('cipher', requestInput)
})
afterAll(() => platform?.close())

/** A run that asks, of this user where one is given. */
async function ask(agent: string, text: string, userId?: string): Promise<string> {
  const key = await platform.keyFor('admin')
  const fields = userId === undefined ? {} : { userId }
  const answer = await platform.run(agent, text, { key, fields })
  expect(answer.headers.get('x-run-status')).toBe('input_required')
  return answer.headers.get('x-run-id') as string
}

async function openRun(page: Page, runId: string): Promise<void> {
  await page.goto(`${platform.consoleUrl}runs/${runId}`)
  await page.getByRole('heading', { level: 1, name: /^Run of/ }).waitFor()
}

const question = (page: Page, agent: string) => page.getByRole('region', { name: `${agent} asks` })

test('runs that wait are counted on the overview, and found from there; an approval lets the run go on', async () => {
  await ask('whale', 'pay', platform.people.member.uid)
  const page = await platform.signedIn('member')
  await page.getByRole('link', { name: '1 run waits for an answer' }).click()
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor()
  expect(await page.getByLabel('State').inputValue()).toBe('input_required')
  const row = page.getByRole('row', { name: /WHALE/ })
  await row.getByText('▲ input_required').waitFor()
  await row.getByRole('link').click()
  const asked = question(page, 'WHALE')
  await asked.getByText('Pay 7?').waitFor()
  const call = asked.getByRole('group', { name: 'pay' })
  expect(await call.locator('dl').innerText()).toMatch(/^amount\s+7$/)
  expect(await asked.getByText('Pay 7?').count()).toBe(1)
  const times = await asked
    .locator('time')
    .evaluateAll((all) => all.map((one) => Date.parse(one.getAttribute('datetime') ?? '')))
  expect(times[1]! - times[0]!).toBe(86_400_000)
  await page.getByText('3 events, live').waitFor()
  await keepPicture(page, 'run-question')
  expect(await seriousFaultsOf(page)).toEqual([])
  await page.getByRole('button', { name: 'Dark' }).click()
  await page.setViewportSize({ width: 390, height: 844 })
  await keepPicture(page, 'run-question-narrow')
  expect(await sidewaysScrollOf(page)).toBe(0)
  expect(await seriousFaultsOf(page)).toEqual([])
  await page.reload()
  await call.getByRole('button', { name: 'Approve' }).press('Enter')
  await page.getByText('The answer was sent.').waitFor()
  await page.getByText('● completed').waitFor()
  await page.getByText('Paid.').waitFor()
  await page.getByText('5 events', { exact: true }).waitFor()
  const answer = page.locator('.records > li').nth(3)
  expect(await answer.innerText()).toMatch(/user\s+Approved/)
  expect(await asked.count()).toBe(0)
  await page.goto(platform.consoleUrl)
  await page.getByRole('link', { name: /Runs running/ }).waitFor()
  expect(await page.getByRole('link', { name: /for an answer/ }).count()).toBe(0)
  expect(await violationsOf(page)).toEqual([])
})

test.each([
  ['the button', async (page: Page) => page.getByRole('button', { name: 'Refuse' }).click()],
  ['the word', (page: Page) => send(page, ' No ')],
])('a refusal by %s', async (_, refuse) => {
  const runId = await ask('whale', 'pay', platform.people.member.uid)
  const page = await platform.signedIn('member')
  await openRun(page, runId)
  await question(page, 'WHALE').waitFor()
  await refuse(page)
  await page.getByText('Not paid.').waitFor()
  const events = page.getByRole('region', { name: 'Events' })
  await events.getByText('Refused', { exact: true }).waitFor()
})

async function send(page: Page, text: string): Promise<void> {
  await page.getByLabel('Answer').fill(text)
  await page.getByRole('button', { name: 'Answer' }).click()
}

test('answers in words, to an agent that asks twice', async () => {
  const runId = await ask('cipher', 'book', platform.people.member.uid)
  const page = await platform.signedIn('member')
  await openRun(page, runId)
  const asked = question(page, 'CIPHER')
  await asked.getByText('Which day?').first().waitFor()
  await asked.getByRole('group', { name: 'adk_request_input' }).waitFor()
  expect(await asked.getByRole('button', { name: 'Approve' }).count()).toBe(0)
  await send(page, 'Monday')
  await asked.getByText('At what time?').first().waitFor()
  expect(await page.getByLabel('Answer').inputValue()).toBe('')
  await send(page, 'noon')
  await page.getByText('booked at noon').waitFor()
  await page.getByText('● completed').waitFor()
  const said = await page.locator('.records > li').filter({ hasText: 'user' }).allInnerTexts()
  expect(said.map((one) => /Monday|noon/.exec(one)?.[0])).toEqual(['Monday', 'noon'])
})

test('several approvals go in one answer, when the last is decided', async () => {
  const calls = ['one', 'two'].map((name) => ({
    functionCall: {
      id: `ask-${name}`,
      name: 'adk_request_confirmation',
      args: { originalFunctionCall: { name, args: {} }, toolConfirmation: { hint: `Call ${name}?` } },
    },
  }))
  platform.script('atlas', ({ body }) => {
    if (responseIn(body)) return [{ text: JSON.stringify((body.newMessage as { parts: unknown[] }).parts) }]
    const longRunningToolIds = calls.map(({ functionCall }) => functionCall.id)
    return [{ event: { content: { role: 'model', parts: calls }, longRunningToolIds } }]
  })
  const runId = await ask('atlas', 'do both', platform.people.member.uid)
  const page = await platform.signedIn('member')
  await openRun(page, runId)
  const group = (name: string) => question(page, 'ATLAS').getByRole('group', { name })
  await group('one').getByText('Call one?').waitFor()
  await group('one').getByRole('button', { name: 'Approve' }).click()
  await group('one').getByText('Approved', { exact: true }).waitFor()
  await page.getByText('1 more to decide').waitFor()
  expect(await page.getByText('▲ input_required').count()).toBe(1)
  await group('two').getByRole('button', { name: 'Refuse' }).click()
  const response = (id: string, confirmed: boolean) => ({
    functionResponse: { id, name: 'adk_request_confirmation', response: { confirmed } },
  })
  const sent = JSON.stringify([response('ask-one', true), response('ask-two', false)])
  await page.getByText(sent).waitFor()
})

test('the question of an agent that was named is answered on the page of the first run, too', async () => {
  platform.script('atlas', () => [{ text: 'My part is done.' }])
  platform.script('pulse', (run) => confirmation({ ...run, text: 'pay' }))
  const runId = await ask('atlas', 'Look at it. @pulse may pay.', platform.people.member.uid)
  const page = await platform.signedIn('member')
  await openRun(page, runId)
  await page.getByRole('img', { name: /ATLAS completed, PULSE input_required/ }).waitFor()
  await question(page, 'PULSE').getByRole('button', { name: 'Approve' }).click()
  await page.getByText('Paid.').waitFor()
  await page.getByRole('img', { name: /ATLAS completed, PULSE completed/ }).waitFor()
  expect(await question(page, 'PULSE').count()).toBe(0)
})

test('somebody else was faster: the page says so and goes on', async () => {
  const runId = await ask('whale', 'pay', platform.people.member.uid)
  const page = await platform.signedIn('member')
  await openRun(page, runId)
  await question(page, 'WHALE').waitFor()
  // The page reads nothing new before its answer.
  await page.route(`**/api/v1/runs?*`, (route) => route.abort())
  await page.route(`**/api/v1/runs/${runId}`, (route) => route.abort())
  const key = await platform.keyFor('admin')
  await platform.call('POST', `/runs/${runId}/input`, { key, body: { message: 'later' } })
  await page.getByRole('button', { name: 'Approve' }).click()
  await page.getByText('The run does not wait for an answer.').waitFor()
  await page.unrouteAll()
  await question(page, 'WHALE').waitFor({ state: 'detached' })
  await page.getByText('● completed').waitFor()
  expect(await page.getByText('The run does not wait for an answer.').count()).toBe(1)
})

test('a viewer sees the question, and nothing to answer it with', async () => {
  const runId = await ask('whale', 'pay', platform.people.viewer.uid)
  const page = await platform.signedIn('viewer')
  await openRun(page, runId)
  const asked = question(page, 'WHALE')
  await asked.getByText('Pay 7?').waitFor()
  await asked.getByRole('group', { name: 'pay' }).waitFor()
  expect(await asked.getByRole('button').count()).toBe(0)
  expect(await page.getByLabel('Answer').count()).toBe(0)
  expect(await seriousFaultsOf(page)).toEqual([])
})
