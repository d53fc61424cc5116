/** Paths that pages and comments name are found and checked, and what only looks like one is not. */

import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { commentsOf, namesOfComments, pathsOfComments, pathsOfPage } from '../../../scripts/doc-paths.ts'
import { projectFolder } from '../../support/pages.ts'
import { temporaryFolder } from '../../support/temporary.ts'

it('finds the paths of comments, with backticks and without', () => {
  const source = `/** Made from lib/a.ts (see \`runtime/http/b.ts\`): "docs/c.md". */
const text = 'lib/none.ts' // as services/d does, see e.ts
const other = \`// lib/no.ts\`
const url = "http://example.com/lib/no.ts"`
  const comments = commentsOf('x.ts', source)
  expect(pathsOfComments(comments)).toEqual(['lib/a.ts', 'runtime/http/b.ts', 'docs/c.md', 'services/d'])
  expect(namesOfComments(comments)).toEqual(['e.ts'])
  const sql = commentsOf('x.sql', "-- as lib/a.ts does\nselect '-- lib/no.ts' /* lib/b.ts */")
  expect(pathsOfComments(sql)).toEqual(['lib/a.ts', 'lib/b.ts'])
})

it('leaves out patterns, generated files, and texts that only look like a path of ours', () => {
  const comments = `/* lib/*.ts lib/{a,b}.ts console/dist/index.html node_modules/a/b test/fixtures/NAME
    https://lib/a.ts @scope/lib #lib/a.ts ./lib/a.ts */`
  expect(pathsOfComments(comments)).toEqual([])
})

it('finds paths of pages in backticks alone', () => {
  expect(pathsOfPage('`lib/a.ts`, `docs/`, lib/b.ts and `lib/*.ts`')).toEqual(['lib/a.ts', 'docs/'])
})

it('makes the check fail for a page or a comment that names a missing file', () => {
  const root = temporaryFolder()
  for (const folder of ['scripts', 'lib']) mkdirSync(join(root, folder))
  for (const name of ['check-doc-paths.ts', 'doc-paths.ts', 'source-files.ts']) {
    copyFileSync(join(projectFolder, 'scripts', name), join(root, 'scripts', name))
  }
  execFileSync('git', ['init', '--quiet'], { cwd: root })
  writeFileSync(join(root, 'package.json'), '{"type":"module"}')
  writeFileSync(join(root, 'lib/a.ts'), '// As lib/gone.ts does, see missing.ts and a.ts.\n')
  writeFileSync(join(root, 'PAGE.md'), '`lib/a.ts` and `lib/lost.ts`\n')
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts/check-doc-paths.ts')])
  const faults = String(stderr)
    .split('\n')
    .filter((line) => line.endsWith('which does not exist'))
  expect([status, faults]).toEqual([
    1,
    [
      'PAGE.md names lib/lost.ts, which does not exist',
      'lib/a.ts names lib/gone.ts, which does not exist',
      'lib/a.ts names missing.ts, which does not exist',
    ],
  ])
})
