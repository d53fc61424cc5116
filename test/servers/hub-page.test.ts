/** The commands of docs/hub.md run as they are written, one after the other in one shell. */

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { startFlotilla } from '../support/flotilla-process.ts'
import { codeBlocks, projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'

const run = promisify(execFile)

test('every command of the page works', { timeout: 240_000 }, async () => {
  const home = temporaryFolder()
  const platform = await startFlotilla(home)
  const blocks = codeBlocks('docs/hub.md').filter(({ language }) => language === 'sh')
  expect(blocks.length).toBeGreaterThan(4)
  const script = blocks.map(({ code }, n) => `printf '\\n--- ${n}\\n'\n${code}`).join('\n')
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: projectFolder,
    timeout: 200_000,
    env: {
      HOME: home,
      PATH: `${join(projectFolder, 'node_modules/.bin')}:${process.env.PATH}`,
      FLOTILLA_HOME: home,
    },
  })
  const [, ...outputs] = stdout.split(/^--- \d+$/m)
  const [, thread, goal, events, commands] = outputs as [string, string, string, string, string]
  expect(thread).toContain('"body":"Repaired."')
  expect(thread).toMatch(/\[\{.*"subject":"Lamp of the lighthouse".*"subject":"Re: Lamp".*\}\]/)
  expect(goal).toContain('"status":"resolved"')
  expect(goal).toContain('"title":"Every lamp is looked after"')
  expect(events).toContain('event: ready')
  expect(commands).toMatch(/Re: Lamp of the lighthouse +operator/)
  expect(commands).toMatch(/Every note is answered +operator +high +pending/)
  platform.child.kill('SIGTERM')
  await platform.finished
})
