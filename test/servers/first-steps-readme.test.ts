/**
 * The README, followed to the letter on a fresh platform: its sections in their order, and on another one backwards, so that none needs
 * one that a reader may have passed over. Only `npm ci` is left out (it has been run already), and ports are free ones.
 */

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { freePort } from '../../scripts/servers/children.ts'
import { anyPorts } from '../support/any-ports.ts'
import { expectTidy, type Newcomer, openNewcomer } from '../support/newcomer.ts'
import { blocksOf, codeBlocks, projectFolder } from '../support/pages.ts'

// Only ends a hang.
vi.setConfig({ testTimeout: 300_000 })

const readme = codeBlocks('README.md')
const [install, otherPorts] = blocksOf(readme, 'Start', 'sh') as [string, string]

let newcomer: Newcomer
let platform: Awaited<ReturnType<Newcomer['leaveRunning']>> | undefined
beforeAll(() => {
  newcomer = openNewcomer(anyPorts)
})
afterEach(async () => {
  await platform?.end()
  platform = undefined
})
afterAll(() => newcomer?.close())

const pathOf = (file: string) => join(newcomer.folder, file)

/** What each section promises of its blocks, which are run here. */
const sections: [heading: string, check: (...blocks: string[]) => Promise<void>][] = [
  [
    'Four steps in the console',
    async (showPassword) => {
      expect((await newcomer.run(showPassword!)).trim()).toMatch(/^[a-z2-9-]{27}$/)
    },
  ],
  [
    'The tour',
    async (tour) => {
      expect(await newcomer.run(tour!)).toContain('every step worked')
    },
  ],
  [
    'Your first agent',
    async (provision, runFirst) => {
      expect(await newcomer.run(provision!)).toContain('SHA256:')
      const [first] = blocksOf(readme, 'Your first agent', 'ts')
      writeFileSync(pathOf('playground/first.ts'), first!)
      expect((await newcomer.run(runFirst!)).match(/id: '([^']+)'/)?.[1]).toBe('log-1')
    },
  ],
  [
    'Talk to agents',
    async (talk) => {
      const printed = await newcomer.run(talk!)
      for (const name of ['ATLAS', 'WHALE', 'PULSE', 'CIPHER', 'NEXUS', 'AXON']) {
        expect(printed).toMatch(new RegExp(`^${name}: \\S`, 'm'))
      }
    },
  ],
  [
    'Notes and goals',
    async (notes) => {
      expect(await newcomer.run(notes!)).toMatch(/Lamp of the lighthouse +operator +normal +active/)
    },
  ],
  [
    'Manage it',
    async (manage) => {
      const printed = await newcomer.run(manage!)
      expect(printed).toContain('atlas')
      expect(printed).toContain('vector-writer')
      expect(printed).not.toMatch(/error/i)
    },
  ],
]

test.each([
  ['in its order', sections],
  ['backwards', sections.toReversed()],
])('the README works %s', async (_order, inOrder) => {
  rmSync(pathOf('.flotilla'), { recursive: true, force: true })
  expect(install).toBe('npm ci && npm start\n')
  platform = await newcomer.leaveRunning(install.replace('npm ci && ', ''), /^ready$/m)
  for (const [heading, check] of inOrder) await check(...blocksOf(readme, heading, 'sh'))
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
  expect(JSON.parse(readFileSync(pathOf('.flotilla/run/addresses.json'), 'utf8'))).toMatchObject({
    vector_url: port(0),
    base_url: port(1),
    agent_gateway_url: port(2),
    hub_url: port(3),
    webhook_url: port(4),
  })
})

test('the file that it makes is in the playground, where git and the checks ignore it', async () => {
  expect(existsSync(pathOf('playground/first.ts'))).toBe(true)
  await expectTidy(newcomer)
})
