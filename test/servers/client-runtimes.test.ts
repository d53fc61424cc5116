/** The packed client: a program of an agent in Node, Bun and Deno, with nothing but the data directory; and the examples of its README. */

import { execFile } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { installRuntimes } from '../../scripts/servers/runtimes.ts'
import { runFlotilla, startFlotilla } from '../support/flotilla-process.ts'
import { installedPackage } from '../support/installed-package.ts'
import { codeBlocks, projectFolder } from '../support/pages.ts'

vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 })

const home = mkdtempSync(join(tmpdir(), 'fl-'))
const ends: (() => Promise<void>)[] = []
let platform: Awaited<ReturnType<typeof startFlotilla>>
beforeAll(async () => {
  const atEnd = (kill: () => Promise<void>) => void ends.push(kill)
  platform = await startFlotilla(home, { atEnd })
  const made = await runFlotilla(['agents', 'provision', 'rover'], { FLOTILLA_HOME: home }, { atEnd })
  expect(made.code).toBe(0)
})
afterAll(async () => {
  await Promise.all(ends.map((end) => end()))
  rmSync(home, { recursive: true, force: true })
})

/** The output of a program of a user in this folder. */
async function run(folder: string, runtime: string, args: string[]): Promise<string> {
  // The Node that npm found may be older than the one that runs the suites.
  const parts = (process.env.PATH ?? '').split(':')
  const PATH = parts.filter((one) => !one.includes('node_modules')).join(':')
  const env = { PATH, HOME: folder, FLOTILLA_HOME: home, DENO_NO_UPDATE_CHECK: '1', SIGNING_SECRET: secret }
  const { stdout } = await promisify(execFile)(runtime, args, { cwd: folder, env, timeout: 120_000 })
  return stdout
}
const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`

const program = `import { createClient } from '@flotilla/client'
import { work } from './client-program.js'

console.log(JSON.stringify(await work(createClient(), 'atlas')))
`

test('the same program does the same in every runtime', async () => {
  const { bun, deno } = await installRuntimes()
  const folder = installedPackage('client')
  copyFileSync(join(projectFolder, 'test/support/client-program.js'), join(folder, 'client-program.js'))
  writeFileSync(join(folder, 'program.js'), program)
  const runtimes: [string, string[]][] = [
    [process.execPath, []],
    ['node', []],
  ]
  if (bun) runtimes.push([bun, ['run']])
  if (deno) runtimes.push([deno, ['run', '--allow-all', '--no-prompt', '--node-modules-dir=manual']])
  for (const [runtime, args] of runtimes) {
    const printed = await run(folder, runtime, [...args, 'program.js'])
    expect([runtime, JSON.parse(printed)]).toEqual([
      runtime,
      {
        ids: 2,
        found: 'The ferry leaves at nine',
        note: 'Ferry',
        run: 'completed',
        spoke: true,
        started: 'ATLAS',
      },
    ])
  }
})

/** Things that the examples take from the program around them. */
const around = `
const own = Array(1_536).fill(0.1)
const copy = { records: 0, apply: async (..._: unknown[]) => void copy.records++ }
const positionOfCopy = async () => 'beginning'
const listAgain = async () => {}
const handle = async (_: unknown) => {}
const db = new DatabaseSync(':memory:')
db.exec('create table webhook_keys (key text primary key); create table webhook_lanes (lane text primary key, sequence)')
`

test('the examples of its README do what it says, one after the other', async () => {
  const folder = installedPackage('client')
  const issued = await runFlotilla(['agent-keys', 'issue', 'rover', '--json'], { FLOTILLA_HOME: home })
  writeFileSync(join(folder, 'agent-key'), (JSON.parse(issued.stdout) as { key: string }).key)
  const blocks = codeBlocks('packages/client/README.md').filter(({ language }) => language === 'ts')
  const code = blocks.map(({ code }) => code).join('\n')
  const imports = code.match(/^import .*$/gm) ?? []
  const bodies = blocks.map(({ code }, n) => {
    const body = code
      .replaceAll(/^import .*$/gm, '')
      .replace('http://127.0.0.1:8081', platform.addresses.base_url)
    // A name of one example is another thing in a later one; client and api are those of the first.
    const scoped = body.replaceAll(/^const (client|api) = /gm, '$1 = ').replace('listen(7001)', 'listen(0)')
    return `console.log('--- ${n + 1}')\n{\nconst signal = AbortSignal.timeout(2_000)\n${scoped}\n}`
  })
  const lines = [
    ...imports,
    "import { DatabaseSync } from 'node:sqlite'",
    "import type { ReceiverStore } from '@flotilla/client/webhook-receiver'",
    around,
    'let client: ReturnType<typeof createClient>, api: ReturnType<typeof createMainApi>',
    ...bodies,
    "console.log('--- end', copy.records > 0)",
    'process.exit(0)',
  ]
  writeFileSync(join(folder, 'readme.ts'), lines.join('\n'))
  const printed = await run(folder, process.execPath, ['readme.ts'])
  expect(printed.match(/^--- .*$/gm)).toEqual([...blocks.map((_, n) => `--- ${n + 1}`), '--- end true'])
  expect(printed).toMatch(/^completed$/m)
})
