/**
 * The README, followed to the letter against one running platform: its own blocks, in their order. Only `npm ci` is
 * left out (it has been run already), and ports are free ones.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { freePort } from '../../scripts/servers/children.ts'
import { anyPorts } from '../support/any-ports.ts'
import { expectTidy, type Newcomer, openNewcomer } from '../support/newcomer.ts'
import { blocksOf, codeBlocks, projectFolder } from '../support/pages.ts'

// Only ends a hang.
vi.setConfig({ testTimeout: 300_000 })

const readme = codeBlocks('README.md')

const [install, otherPorts, tour] = blocksOf(readme, 'Start', 'sh') as [string, string, string]
const [provision, runFirst] = blocksOf(readme, 'Your first agent', 'sh') as [string, string]
const [receiverBlock, fireBlock] = blocksOf(readme, 'Tell others', 'sh') as [string, string]

let newcomer: Newcomer
let platform: Awaited<ReturnType<Newcomer['leaveRunning']>>

beforeAll(async () => {
  newcomer = openNewcomer(anyPorts)
  expect(install).toBe('npm ci && npm start\n')
  platform = await newcomer.leaveRunning(install.replace('npm ci && ', ''), /^ready$/m)
  await newcomer.run(provision)
})

afterAll(async () => {
  await platform?.end()
  await newcomer?.close()
})

const addresses = () =>
  JSON.parse(readFileSync(join(newcomer.folder, '.flotilla/run/addresses.json'), 'utf8'))
const save = (file: string, code: string) => writeFileSync(join(newcomer.folder, file), code)

/** The first output of commands that never end by themselves. */
async function firstWords(command: string): Promise<string> {
  const running = await newcomer.leaveRunning(command, /\S/)
  await running.end()
  return running.output()
}

describe('the README', () => {
  test('the start prints its addresses', () => {
    expect(platform.output()).toMatch(
      /^vector_url http:\/\/127\.0\.0\.1:\d+\nbase_url http.*\nidentity_exchange_url http.*\nhub_url http.*\nagent_gateway_url http.*\nwebhook_url http.*\nready$/m,
    )
  })

  test('the tour works', async () => {
    expect(await newcomer.run(tour)).toContain('The tour is done: every step worked.')
  })

  test('the first agent finds log-1', async () => {
    const [first] = blocksOf(readme, 'Your first agent', 'ts')
    save('playground/first.ts', first!)
    const printed = await newcomer.run(runFirst)
    expect(printed.indexOf("'log-1'")).toBeGreaterThan(0)
    expect(printed.match(/id: '([^']+)'/)?.[1]).toBe('log-1')
  })

  test('agents answer, join, and are asked together', async () => {
    const [runs] = blocksOf(readme, 'Talk to agents', 'sh')
    const printed = await newcomer.run(runs!)
    expect(printed).toContain('`The lighthouse is repaired`')
    expect(printed).toMatch(/^PULSE: /m)
    expect(printed).toMatch(/^AXON: Conclusion: all 5 agents answered\.$/m)
  })

  test('a note is written and listed', async () => {
    const [notes] = blocksOf(readme, 'Notes and goals', 'sh')
    expect(await newcomer.run(notes!)).toMatch(/Lamp of the lighthouse +operator +normal +active/)
  })

  test('an event reaches the receiver', async () => {
    const port = String(await freePort())
    const receiver = await newcomer.leaveRunning(receiverBlock.replace('7001', port), /listens on/)
    const printed = await newcomer.run(fireBlock.replace('7001', port))
    expect(printed).toContain('ATLAS-t-1-task.completed')
    await expect.poll(() => receiver.output(), { timeout: 90_000 }).toContain('task.completed ATLAS t-1')
    await receiver.end()
  })

  test('the local search finds log-2', async () => {
    const [localSearch] = blocksOf(readme, 'Search without a service', 'sh')
    expect(await newcomer.run(localSearch!)).toMatch(/log-2 .*The harbour master is away/)
  })

  const commands = readFileSync(join(projectFolder, 'README.md'), 'utf8').matchAll(
    /^\| `(npx flotilla [^`]+)`/gm,
  )
  test.each([...commands].map(([, command]) => command!))('%s shows something', async (command) => {
    const isEndless = /--watch|tail/.test(command)
    const printed = isEndless ? await firstWords(command) : await newcomer.run(command)
    expect(printed.trim()).not.toBe('')
    expect(printed).not.toMatch(/error/i)
  })
})

test('the platform starts on other ports', async () => {
  await platform.end()
  const [vectorPort, webhookPort] = [String(await freePort()), String(await freePort())]
  platform = await newcomer.leaveRunning(
    otherPorts.replace('8180', vectorPort).replace('9190', webhookPort),
    /^ready$/m,
  )
  expect(addresses()).toMatchObject({
    vector_url: `http://127.0.0.1:${vectorPort}`,
    webhook_url: `http://127.0.0.1:${webhookPort}`,
  })
})

test('the files made are in the playground, where git and the checks ignore it', async () => {
  for (const file of ['first.ts', 'knowledgebase.jsonl', 'index.stidx']) {
    expect(existsSync(join(newcomer.folder, 'playground', file))).toBe(true)
  }
  await expectTidy(newcomer)
})
