/**
 * The README and the quick starts, followed to the letter against one running platform: their own blocks, in their order.
 * Only `npm ci` is left out (whoever runs this has run it), and ports are free ones.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../../scripts/servers/children.ts'
import { installPythonPackage } from '../../scripts/servers/install.ts'
import { anyPorts, type Newcomer, openNewcomer } from '../support/newcomer.ts'
import { type CodeBlock, codeBlocks, projectFolder } from '../support/pages.ts'

const readme = codeBlocks('README.md')
const quickStart = codeBlocks('docs/quick-start.md')

/** The blocks of one section in one language. */
function blocksOf(page: CodeBlock[], heading: string, language: string): string[] {
  const found = page.filter((block) => block.heading === heading && block.language === language)
  return found.map(({ code }) => code)
}

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

/** What a command that never ends by itself prints first. */
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
    await expect.poll(() => receiver.output(), { timeout: 30_000 }).toContain('task.completed ATLAS t-1')
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

describe('the quick starts', () => {
  test('begin as the README does', () => {
    expect(quickStart.slice(0, 2).map(({ code }) => code)).toEqual([install, provision])
  })

  test('curl and openssl', async () => {
    const parts = blocksOf(quickStart, 'curl and openssl', 'sh')
    expect(parts).toHaveLength(4)
    const printed = await newcomer.run(parts.join(''))
    expect(printed).toContain('"status":"applied"')
    expect(printed).toMatch(/"results":\[\{"id":"curl-2"/)
    const used = parts
      .join('')
      .match(/\b(curl|openssl|sed|od|tr|mktemp|rm|echo|printf|node|npx|python3|jq|xxd)\b/g)
    expect(used).not.toEqual(expect.arrayContaining([expect.stringMatching(/^(node|npx|python3|jq|xxd)$/)]))
  })

  test('Python, in at most 20 lines', { timeout: 600_000 }, async () => {
    const [code] = blocksOf(quickStart, 'Python', 'py')
    expect(code!.split('\n').filter((line) => line.trim() !== '').length).toBeLessThanOrEqual(20)
    save('playground/quick_start.py', code!)
    const packages = await installPythonPackage('cryptography', '50.0.2')
    const printed = await newcomer.run(`PYTHONPATH=${packages} python3 playground/quick_start.py`)
    expect(printed).toMatch(/^\[\{'id': 'py-1'/)
  })

  test('TypeScript', async () => {
    const [code] = blocksOf(quickStart, 'TypeScript', 'ts')
    save('playground/quick-start.ts', code!)
    const printed = await newcomer.run('npx node playground/quick-start.ts')
    expect(printed).toContain("id: 'ts-2'")
    expect(printed).not.toContain("id: 'ts-1'")
  })
})

test('the platform starts on other ports, and its checks pass over all that was made', {
  timeout: 600_000,
}, async () => {
  for (const file of ['first.ts', 'quick-start.ts', 'knowledgebase.jsonl', 'index.stidx']) {
    expect(existsSync(join(newcomer.folder, 'playground', file))).toBe(true)
  }
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
  await newcomer.run('npm run check', { seconds: 500 })
  expect(await newcomer.run('git status --short --untracked-files=all | sed "/^A  /d"')).toBe('')
})
