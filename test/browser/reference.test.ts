/** The reference page in a browser: it works under its policy, and lets nothing else run. */

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type ConsolePlatform, keepPicture, openConsole, violationsOf } from '../support/console.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 240_000 })

let platform: ConsolePlatform
beforeAll(async () => {
  platform = await openConsole()
})
afterAll(() => platform?.close())

/** Title and a tag of the description. */
async function shown(page: Page): Promise<void> {
  await page.getByRole('heading', { name: 'Flotilla main API' }).first().waitFor()
  await page.getByText('Agent keys, tokens, who is calling').first().waitFor({ state: 'attached' })
}

test('the page shows the description, with its styles, and nothing that it needs is refused', async () => {
  const page = await platform.newPage()
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(error.message))
  const refused: string[] = []
  page.on('requestfailed', (request) => refused.push(request.url()))
  await page.goto(`${platform.baseUrl}/api/v1/reference/`)
  await shown(page)
  await keepPicture(page, 'reference')
  const styles: { count: number; font: string; theme: string } = await page.evaluate(`({
    count: [...document.styleSheets].filter(({ cssRules }) => cssRules.length > 0).length,
    font: getComputedStyle(document.documentElement).getPropertyValue('--scalar-font-code'),
    theme: getComputedStyle(document.body).getPropertyValue('--scalar-background-1'),
  })`)
  expect(styles.count).toBeGreaterThanOrEqual(2)
  expect(styles.font).not.toBe('')
  expect(styles.theme).not.toBe('')
  expect(errors).toEqual([])
  expect(refused).toEqual([])
  // It tries whether it may compile code, and goes on without.
  const needed = (await violationsOf(page)).filter((one) => !/^(script-src|style-src-attr) /.test(one))
  expect(needed).toEqual([])
})

test('a script that came into the page does not run, and no other page frames it', async () => {
  const page = await platform.newPage()
  await page.goto(`${platform.baseUrl}/api/v1/reference/`)
  await shown(page)
  await page.evaluate(`{
    const script = document.createElement('script')
    script.textContent = 'globalThis.ran = true'
    document.body.append(script)
    const holder = document.createElement('div')
    holder.innerHTML = '<img src="none" onerror="globalThis.ran = true">'
    document.body.append(holder)
  }`)
  await vi.waitFor(async () => {
    const found = (await violationsOf(page)).map((one) => one.split(' ')[0])
    expect(found).toEqual(expect.arrayContaining(['script-src-elem', 'script-src-attr']))
  })
  expect(await page.evaluate('globalThis.ran')).toBeUndefined()
  const outside = await platform.newPage()
  await outside.route('http://outside.test/', (route) =>
    route.fulfill({
      contentType: 'text/html',
      body: `<iframe src="${platform.baseUrl}/api/v1/reference/"></iframe>`,
    }),
  )
  await outside.goto('http://outside.test/')
  await outside.waitForLoadState('networkidle')
  expect(await outside.frames()[1]?.locator('#app').count()).toBe(0)
})
