/** The commands of docs/sinks.md run as they are written. */

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runJson } from '../support/command-line.ts'
import { startFlotilla } from '../support/flotilla-process.ts'
import { codeBlocks, projectFolder } from '../support/pages.ts'
import { databaseUrl } from '../support/servers.ts'
import { temporaryFolder } from '../support/temporary.ts'

test('the page copies notes into files and into a table', async () => {
  const home = temporaryFolder()
  await startFlotilla(home)
  await runJson(['notes', 'add', 'Lamp', '--body', 'It is broken.'], { FLOTILLA_HOME: home })
  const folder = temporaryFolder()
  const env = { ...process.env, FLOTILLA_HOME: home, FLOTILLA_LAUNCHED: '1' }
  const flotilla = `"${process.execPath}" "${join(projectFolder, 'bin', 'flotilla.js')}"`
  const run = (script: string) =>
    execFileSync('bash', ['-euo', 'pipefail', '-c', script.replaceAll('npx flotilla', flotilla)], {
      encoding: 'utf8',
      cwd: folder,
      env,
      timeout: 110_000,
    })
  const blocks = codeBlocks('docs/sinks.md')
  const scripts = blocks.filter(({ language }) => language === 'sh').map(({ code }) => code)
  expect(run(scripts.join('\n'))).toMatch(/^\d+ records? of hub.records copied to /)
  expect(readFileSync(join(folder, 'playground/copies', 'hub.records-000001.jsonl'), 'utf8')).toContain(
    '"title":"Lamp"',
  )
  const [table] = blocks.filter(({ language }) => language === 'text').map(({ code }) => code)
  const url = await databaseUrl()
  // As written, with the address of a database, and an end.
  const copy = `${table!.replace('postgres://…', `'${url}'`).trim()} --no-follow`
  expect(run(copy)).toMatch(/^\d+ records? of hub.records copied to notes_and_goals, which is at 0:/)
}, 240_000)
