/**
 * The commands of docs/hub.md and docs/runs.md run as they are written, the blocks of a page one after the other in one shell;
 * the files of docs/nodes.md are sound.
 */

import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { nodesFile } from '#services/runs/nodes/nodes.ts'
import { startFlotilla } from '../support/flotilla-process.ts'
import { codeBlocks, projectFolder } from '../support/pages.ts'

const run = promisify(execFile)

const home = mkdtempSync(join(tmpdir(), 'fl-'))
let kill: () => Promise<void>
beforeAll(async () => {
  await startFlotilla(home, {
    atEnd(end) {
      kill = end
    },
  })
}, 240_000)
afterAll(async () => {
  await kill?.()
  rmSync(home, { recursive: true, force: true })
})

/** The output of each block. */
async function outputsOf(page: string): Promise<string[]> {
  const blocks = codeBlocks(page).filter(({ language }) => language === 'sh')
  const script = blocks.map(({ code }, n) => `printf '\\n--- ${n}\\n'\n${code}`).join('\n')
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: projectFolder,
    timeout: 200_000,
    env: {
      HOME: home,
      TMPDIR: home,
      PATH: `${join(projectFolder, 'node_modules/.bin')}:${process.env.PATH}`,
      FLOTILLA_HOME: home,
    },
  })
  return stdout.split(/^--- \d+$/m).slice(1)
}

test('every command of the hub works', { timeout: 240_000 }, async () => {
  const outputs = (await outputsOf('docs/hub.md')) as [string, string, string, string, string]
  const [, thread, goal, events, commands] = outputs
  expect(thread).toContain('"body":"Repaired."')
  expect(thread).toMatch(/\[\{.*"subject":"Lamp of the lighthouse".*"subject":"Re: Lamp".*\}\]/)
  expect(goal).toContain('"status":"resolved"')
  expect(goal).toContain('"title":"Every lamp is looked after"')
  expect(events).toContain('event: ready')
  expect(commands).toMatch(/Re: Lamp of the lighthouse +operator/)
  expect(commands).toMatch(/Every note is answered +operator +high +pending/)
})

test('every command of runs works', { timeout: 240_000 }, async () => {
  const outputs = (await outputsOf('docs/runs.md')) as [string, string, string, string, string, string]
  const [commands, , whole, streamed, canceled, dispatched] = outputs
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
})

test('the nodes files of the page are sound', () => {
  const files = codeBlocks('docs/nodes.md').filter(({ language }) => language === 'yaml')
  const slugs = files.map(({ code }) =>
    nodesFile.parse(code, { ATLAS_TOKEN: 'secret-token' }, 'nodes.yaml').nodes.map(({ slug }) => slug),
  )
  expect(slugs).toEqual([['atlas', 'axon'], ['scout']])
})
