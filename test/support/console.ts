/** The console in headless Chromium, over the whole platform on embedded engines. */

import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import type { Access } from '#services/access/agents/agents.ts'
import { eventually } from './eventually.ts'
import { type MainApiPlatform, openMainApiPlatform } from './main-api-platform.ts'
import { makePerson, type TestPerson } from './people.ts'

export interface ConsolePlatform extends MainApiPlatform {
  consoleUrl: string
  people: Record<Access, TestPerson>
  /** A page of a browser of its own; whatever breaks the content policy is in `violationsOf`. */
  newPage(options?: BrowserContextOptions): Promise<Page>
  /** The same, signed in. */
  signedIn(role: Access, options?: BrowserContextOptions): Promise<Page>
}

export async function openConsole(
  env: Record<string, string> = {},
  options: Parameters<typeof openMainApiPlatform>[1] = {},
): Promise<ConsolePlatform> {
  return openConsoleOver(await openMainApiPlatform(env, options))
}

/** Pages of headless Chromium, each in a browser of its own; whatever breaks the content policy is in `violationsOf`. */
export async function openChromium() {
  const executablePath = process.env.CHROMIUM ?? chromiumPath()
  const browser: Browser = await chromium.launch({ executablePath, args: ['--disable-dev-shm-usage'] })
  let addresses = 0
  return {
    async newPage(options: BrowserContextOptions = {}): Promise<Page> {
      addresses += 1
      const context = await browser.newContext({
        viewport: { width: 1280, height: 800 },
        reducedMotion: 'reduce',
        locale: 'en-GB',
        timezoneId: 'UTC',
        permissions: ['clipboard-read', 'clipboard-write'],
        // Limits of one test do not meet another.
        extraHTTPHeaders: { 'x-forwarded-for': `10.78.0.${addresses}` },
        ...options,
      })
      const page = await context.newPage()
      // Only ends a hang.
      page.setDefaultTimeout(90_000)
      await page.addInitScript(collectViolations)
      return page
    },
    close: () => browser.close(),
  }
}

/** Closes the platform, too. */
export async function openConsoleOver<P extends MainApiPlatform>(platform: P): Promise<P & ConsolePlatform> {
  const { newPage, close } = await openChromium()
  const people = {
    viewer: await makePerson(platform, 'vera@example.com', 'viewer'),
    member: await makePerson(platform, 'max@example.com', 'member'),
    admin: await makePerson(platform, 'ada@example.com', 'admin'),
  }
  return {
    ...platform,
    consoleUrl: `${platform.baseUrl}/console/`,
    people,
    newPage,
    async signedIn(role, options) {
      const page = await newPage(options)
      await page.goto(`${platform.baseUrl}/console/`)
      await fillSignIn(page, people[role])
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      return page
    },
    async close() {
      await close()
      await platform.close()
    },
  }
}

export async function fillSignIn(page: Page, { email, password }: Pick<TestPerson, 'email' | 'password'>) {
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

function chromiumPath(): string {
  const find = 'command -v chromium || command -v chromium-browser || command -v google-chrome'
  return execFileSync('sh', ['-c', find]).toString().trim()
}

/** Runs in the page, before its own scripts. */
const collectViolations = `globalThis.violations = []
addEventListener('securitypolicyviolation', ({ effectiveDirective, sourceFile }) => {
  violations.push(effectiveDirective + ' ' + sourceFile)
})`

export async function violationsOf(page: Page): Promise<string[]> {
  return page.evaluate('violations')
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Rules that depend on the colours of a page; the others see its elements alone. */
export const colourRules = ['cat.color']

const seriousOnly = `({ violations }) => violations
  .filter(({ impact }) => impact === 'serious' || impact === 'critical')
  .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary))`

/** Serious or critical findings of axe, one line for each element. With `tags` only rules that have one of them run. */
export async function seriousFaultsOf(page: Page, tags?: readonly string[]): Promise<string[]> {
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(axe)
  const options = { resultTypes: ['violations'], ...(tags ? { runOnly: { type: 'tag', values: tags } } : {}) }
  return page.evaluate(`axe.run(document, ${JSON.stringify(options)}).then(${seriousOnly})`)
}

/**
 * Steps the clock of a page (`page.clock.install()` comes before its load) until something is seen: the page reads again when
 * its timers say so, without a wait.
 */
export async function stepUntil(page: Page, what: string, isThere: () => Promise<boolean>): Promise<void> {
  await eventually(
    what,
    async () => {
      await page.clock.runFor(1_000)
      return isThere()
    },
    90_000,
  )
}

/** Pixels by which the page is wider than its window. */
export async function sidewaysScrollOf(page: Page): Promise<number> {
  return page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
}

/** Elements that reach beyond the window, for the message of a test that found it too wide. */
export async function tooWideIn(page: Page): Promise<string[]> {
  return page.evaluate(`[...document.querySelectorAll('body *')]
    .filter((one) => one.closest('nav, .scroll') === null)
    .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .slice(0, 10)
    .map((one) => one.tagName + '.' + one.className + ' ' + one.textContent.slice(0, 60))`)
}

/** With CONSOLE_PICTURES naming a folder, keeps a picture of the page there. */
export async function keepPicture(page: Page, name: string): Promise<void> {
  const folder = process.env.CONSOLE_PICTURES
  if (folder === undefined) return
  mkdirSync(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}.png`) })
}

/** The same of several screenshots, two in a row, with what each shows. */
export async function keepPictures(
  page: Page,
  name: string,
  shots: readonly { title: string; png: Buffer }[],
): Promise<void> {
  const figures = shots.map(
    ({ title, png }) =>
      `<figure><img src="data:image/png;base64,${png.toString('base64')}"><figcaption>${title}</figcaption></figure>`,
  )
  await page.setViewportSize({ width: 1320, height: 884 })
  await page.setContent(`<style>
    body { display: grid; grid-template-columns: 1fr 1fr; gap: 16px; margin: 16px; font: 15px system-ui, "DejaVu Sans" }
    figure { margin: 0 } img { width: 100%; border: 1px solid #d9dde2 } figcaption { color: #5a6470 }
  </style>${figures.join('')}`)
  await keepPicture(page, name)
}
