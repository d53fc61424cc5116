/**
 * The quick starts, followed to the letter against one running platform. Only `npm ci` is left out (it has been run
 * already), and ports are free ones.
 */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { installCryptography } from '../../scripts/servers/tools.ts'
import { anyPorts } from '../support/any-ports.ts'
import { expectTidy, type Newcomer, openNewcomer } from '../support/newcomer.ts'
import { blocksOf, codeBlocks } from '../support/pages.ts'

vi.setConfig({ testTimeout: 300_000 })

const readme = codeBlocks('README.md')
const quickStart = codeBlocks('docs/quick-start.md')
const [install] = blocksOf(readme, 'Start', 'sh') as [string]
const [provision] = blocksOf(readme, 'Your first agent', 'sh') as [string]

let newcomer: Newcomer
let platform: Awaited<ReturnType<Newcomer['leaveRunning']>>
beforeAll(async () => {
  newcomer = openNewcomer(anyPorts)
  platform = await newcomer.leaveRunning(install.replace('npm ci && ', ''), /^ready$/m)
  await newcomer.run(provision)
})
afterAll(async () => {
  await platform?.end()
  await newcomer?.close()
})

const save = (file: string, code: string) => writeFileSync(join(newcomer.folder, file), code)

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
    const packages = await installCryptography()
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

test('the files made are in the playground, where git and the checks ignore it', () => expectTidy(newcomer))
