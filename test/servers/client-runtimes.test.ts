/** The packed client in Node, Bun and Deno: a program of an agent, with nothing but the data directory. */

import { execFile } from 'node:child_process'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { installRuntimes } from '../../scripts/servers/runtimes.ts'
import { runFlotilla, startFlotilla } from '../support/flotilla-process.ts'
import { installedPackage } from '../support/installed-package.ts'
import { projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'

vi.setConfig({ testTimeout: 600_000 })

const program = `import { createClient } from '@flotilla/client'
import { work } from './client-program.js'

console.log(JSON.stringify(await work(createClient(), 'atlas')))
`

test('the same program does the same in every runtime', async () => {
  const { bun, deno } = await installRuntimes()
  const home = temporaryFolder()
  const platform = await startFlotilla(home)
  onTestFinished(() => void platform.child.kill('SIGTERM'))
  const made = await runFlotilla(['agents', 'provision', 'rover'], { FLOTILLA_HOME: home })
  expect(made.code).toBe(0)
  const folder = installedPackage('client')
  copyFileSync(join(projectFolder, 'test/support/client-program.js'), join(folder, 'client-program.js'))
  writeFileSync(join(folder, 'program.js'), program)

  // The Node that npm found may be older than the one that runs the suites.
  const { PATH = '' } = process.env
  const outside = PATH.split(':')
    .filter((one) => !one.includes('node_modules'))
    .join(':')
  const runtimes: [string, string[]][] = [
    [process.execPath, []],
    ['node', []],
    ...(bun ? [[bun, ['run']] as [string, string[]]] : []),
    ...(deno
      ? [[deno, ['run', '--allow-all', '--no-prompt', '--node-modules-dir=manual']] as [string, string[]]]
      : []),
  ]
  const env = { PATH: outside, HOME: folder, FLOTILLA_HOME: home, DENO_NO_UPDATE_CHECK: '1' }
  for (const [runtime, args] of runtimes) {
    const options = { cwd: folder, env, timeout: 120_000 }
    const { stdout } = await promisify(execFile)(runtime, [...args, 'program.js'], options)
    expect([runtime, JSON.parse(stdout)]).toEqual([
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
