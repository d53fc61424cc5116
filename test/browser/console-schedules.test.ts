/** Schedules in the console: making one, its runs, a pause, and what others may do. */

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  type ConsolePlatform,
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

test('a member makes one, sees it fire, pauses, resumes and deletes it', async () => {
  const page = await platform.signedIn('member')
  const field = (name: string) => page.getByRole('textbox', { name })
  await page.getByRole('link', { name: 'Schedules' }).click()
  await page.getByText('No schedules yet').waitFor()
  await page.getByRole('button', { name: 'Make a schedule' }).click()
  await field('Agent').fill('WHALE')
  await field('Message').fill('Any **news**?')
  await field('Cron').fill('every day')
  await page.getByRole('button', { name: 'Make it' }).click()
  await page.getByText('five fields').first().waitFor()
  await field('Cron').fill('30 7 * * 1-5')
  await field('Time zone').fill('Europe/Berlin')
  await page.getByRole('button', { name: 'Make it' }).click()
  await page.getByRole('heading', { level: 1, name: 'Schedule' }).waitFor()
  await page.getByText('No time of it has come yet').waitFor()
  expect(await seriousFaultsOf(page)).toEqual([])

  const { rows } = await platform.platform.engines.relational.query<{ id: string }>(
    `update platform.schedules set next_at = clock_timestamp() returning id, pg_notify('flotilla_schedules', '') as noticed`,
  )
  const fired = page.getByRole('row', { name: /completed/ })
  await fired.waitFor()
  await fired.getByRole('link', { name: /^run_/ }).click()
  await page.getByRole('heading', { level: 1, name: 'Run of WHALE' }).waitFor()

  await page.goto(`${platform.consoleUrl}schedules/${rows[0]!.id}`)
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByText('▲ paused').waitFor()
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByText('● active').waitFor()
  await page.setViewportSize({ width: 390, height: 844 })
  expect(await sidewaysScrollOf(page)).toBe(0)

  const viewer = await platform.signedIn('viewer')
  await viewer.goto(`${platform.consoleUrl}schedules`)
  await viewer.getByText('No schedules yet').waitFor()
  expect(await viewer.getByRole('button', { name: 'Make a schedule' }).count()).toBe(0)
  const admin = await platform.signedIn('admin')
  await admin.goto(`${platform.consoleUrl}schedules`)
  await admin.getByRole('row', { name: /WHALE/ }).getByText('30 7 * * 1-5').waitFor()

  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('button', { name: 'Delete it' }).click()
  await page.getByText('No schedules yet').waitFor()
  expect(await violationsOf(page)).toEqual([])
})
