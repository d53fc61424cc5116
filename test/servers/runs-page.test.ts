/** The commands of docs/runs.md run as they are written, one after the other in one shell; the files of docs/nodes.md are sound. */

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { parseNodes } from '#services/runs/nodes/nodes-file.ts'
import { startFlotilla } from '../support/flotilla-process.ts'
import { codeBlocks, projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'

const run = promisify(execFile)

test('every command of the page works', { timeout: 240_000 }, async () => {
  const home = temporaryFolder()
  const platform = await startFlotilla(home)
  const blocks = codeBlocks('docs/runs.md').filter(({ language }) => language === 'sh')
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
  const [commands, , whole, streamed, canceled, dispatched] = outputs as [
    string,
    string,
    string,
    string,
    string,
    string,
  ]
  expect(commands).toMatch(/^PULSE: /m)
  expect(commands).toMatch(/^AXON: Conclusion: all 5 agents answered\./m)
  expect(commands).toMatch(/^run_[0-9a-f]{32} +PULSE +completed +mention/m)
  expect(JSON.parse(whole)).toMatchObject([{ author: 'ATLAS' }])
  expect(streamed).toMatch(/id: 1\ndata: \{.*"author":"(WHALE|NEXUS)"/)
  const numbers = [...streamed.matchAll(/^id: (\d+)$/gm)].map(([, id]) => id)
  expect(numbers).toEqual(['1', '2', '3', '2', '3'])
  expect(canceled).toMatch(/"status":"(completed|canceled)"/)
  expect(dispatched).toContain('"customMetadata":{"dispatch":')
  expect(dispatched).toContain('"result":"Conclusion: all 5 agents answered.')
  platform.child.kill('SIGTERM')
  await platform.finished
})

test('the nodes files of the page are sound', () => {
  const files = codeBlocks('docs/nodes.md').filter(({ language }) => language === 'yaml')
  const slugs = files.map(({ code }) =>
    parseNodes(code, { ATLAS_TOKEN: 'secret-token' }, 'nodes.yaml').nodes.map(({ slug }) => slug),
  )
  expect(slugs).toEqual([['atlas', 'axon'], ['scout']])
})
