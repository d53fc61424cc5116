/**
 * The README, followed to the letter on a fresh platform: its sections in their order from the package in an empty folder, and in a
 * clone backwards, so that none needs one that a reader may have passed over. Only `npm ci` is left out, and ports are free ones.
 */

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { freePort } from '../../scripts/servers/children.ts'
import { anyPorts } from '../support/any-ports.ts'
import { expectTidy, type Newcomer, openNewcomer } from '../support/newcomer.ts'
import { makePackage, withNode } from '../support/package.ts'
import { blocksOf, codeBlocks, projectFolder } from '../support/pages.ts'
import { openShell, type Shell } from '../support/shell.ts'

// Only ends a hang.
vi.setConfig({ testTimeout: 300_000 })

const readme = codeBlocks('README.md')
const [fromPackage, otherPorts, fromClone] = blocksOf(readme, 'Start', 'sh') as [string, string, string]

/** Where it is followed: an empty folder with the tarball, and a clone. */
interface Place extends Shell {
  folder: string
}

let newcomer: Newcomer
let empty: Place
let platform: Awaited<ReturnType<Shell['leaveRunning']>> | undefined
beforeAll(() => {
  newcomer = openNewcomer(anyPorts)
  const folder = mkdtempSync(join(tmpdir(), 'fl-newcomer-'))
  makePackage(folder)
  empty = { folder, ...openShell(folder, withNode(process.execPath, join(folder, 'cache'))) }
})
afterEach(async () => {
  await platform?.end()
  platform = undefined
})
afterAll(async () => {
  await newcomer?.close()
  await empty?.close()
  rmSync(empty?.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
})

/** What each section promises of its blocks, which are run here. */
const sections: [heading: string, check: (at: Place, ...blocks: string[]) => Promise<void>][] = [
  [
    'Four steps in the console',
    async (at, showPassword) => {
      expect((await at.run(showPassword!)).trim()).toMatch(/^[a-z2-9-]{27}$/)
    },
  ],
  [
    'The tour',
    async (at, tour) => {
      expect(await at.run(tour!)).toContain('every step worked')
    },
  ],
  [
    'Your first agent',
    async (at, provision, runFirst, runPython) => {
      expect(await at.run(provision!)).toContain('SHA256:')
      const [first] = blocksOf(readme, 'Your first agent', 'js')
      mkdirSync(join(at.folder, 'playground'), { recursive: true })
      writeFileSync(join(at.folder, 'playground/first.mjs'), first!)
      expect(await at.run(runFirst!)).toContain('The harbour master is away until Monday')
      const [python] = blocksOf(readme, 'Your first agent', 'py')
      writeFileSync(join(at.folder, 'playground/first.py'), python!)
      const inTarball = existsSync(join(at.folder, 'node_modules/flotilla/packages/client-python'))
      const place = inTarball ? './node_modules/flotilla/packages' : './packages'
      const printed = await at.run(runPython!.replace('./packages', place))
      expect(printed).toContain('The harbour master is away until Monday')
    },
  ],
  [
    'Talk to agents',
    async (at, talk) => {
      const printed = await at.run(talk!)
      for (const name of ['ATLAS', 'WHALE', 'PULSE', 'CIPHER', 'NEXUS', 'AXON']) {
        expect(printed).toMatch(new RegExp(`^${name}: \\S`, 'm'))
      }
    },
  ],
  [
    'Notes and goals',
    async (at, notes) => {
      expect(await at.run(notes!)).toMatch(/Lamp of the lighthouse +operator +normal +active/)
    },
  ],
  [
    'Manage it',
    async (at, manage) => {
      const printed = await at.run(manage!)
      expect(printed).toContain('atlas')
      expect(printed).toContain('vector-writer')
      expect(printed).not.toMatch(/error/i)
    },
  ],
]

test('the README works in its order in an empty folder, with the package', async () => {
  const { version } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8'))
  expect(fromPackage).toBe(`npm install ./flotilla-${version}.tgz && npx flotilla start\n`)
  platform = await empty.leaveRunning(fromPackage, /^ready$/m)
  for (const [heading, check] of sections) await check(empty, ...blocksOf(readme, heading, 'sh'))
})

test('the README works backwards in a clone', async () => {
  expect(fromClone).toBe('npm ci && npm start\n')
  platform = await newcomer.leaveRunning(fromClone.replace('npm ci && ', ''), /^ready$/m)
  for (const [heading, check] of sections.toReversed()) {
    await check(newcomer, ...blocksOf(readme, heading, 'sh'))
  }
})

test('every section with commands is followed', () => {
  const headings = new Set(readme.filter(({ language }) => language === 'sh').map(({ heading }) => heading))
  // Containers are not at hand here.
  expect([...headings]).toEqual(['Start', ...sections.map(([heading]) => heading), 'On servers'])
  expect(readFileSync(join(projectFolder, 'README.md'), 'utf8').split('\n').length).toBeLessThan(200)
})

test('the platform starts on other ports', async () => {
  const names = ['8180', '8181', '8182', '8183', '9190']
  const free = await Promise.all(names.map(freePort))
  const command = names.reduce((text, name, n) => text.replace(name, String(free[n])), otherPorts)
  platform = await newcomer.leaveRunning(command, /^ready$/m)
  const port = (n: number) => `http://127.0.0.1:${free[n]}`
  expect(
    JSON.parse(readFileSync(join(newcomer.folder, '.flotilla/run/addresses.json'), 'utf8')),
  ).toMatchObject({
    vector_url: port(0),
    base_url: port(1),
    agent_gateway_url: port(2),
    hub_url: port(3),
    webhook_url: port(4),
  })
})

test('the file that it makes is in the playground, where git and the checks ignore it', async () => {
  expect(existsSync(join(newcomer.folder, 'playground/first.mjs'))).toBe(true)
  await expectTidy(newcomer)
})
