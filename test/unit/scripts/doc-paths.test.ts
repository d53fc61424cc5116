/** Paths that pages and comments name are found and checked, and what only looks like one is not. */

import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import {
  anchorsOfPage,
  commentsOf,
  linksOfPage,
  namesOfComments,
  pathsOfComments,
  pathsOfPage,
} from '../../../scripts/doc-paths.ts'
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

it('finds links to files and headings outside of code', () => {
  const page =
    '[a](b.md#c-d), [`e`](../f/), [g](#h), [i](https://x.org/b.md), `[j](k.md)`\n```md\n[l](m.md)\n```\n'
  expect(linksOfPage(page)).toEqual([
    { path: 'b.md', anchor: 'c-d' },
    { path: '../f/', anchor: '' },
    { path: '', anchor: 'h' },
  ])
  const headings = '# The `stidx` file, v2\n\n```sh\n# no heading\n```\n\n## An agent’s way\n'
  expect([...anchorsOfPage(headings)]).toEqual(['the-stidx-file-v2', 'an-agents-way'])
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
  writeFileSync(
    join(root, 'PAGE.md'),
    '`lib/a.ts` and `lib/lost.ts`, [x](docs/a.md#there), [y](docs/a.md#lost)\n',
  )
  mkdirSync(join(root, 'docs'))
  for (const page of ['a', 'b', 'c']) writeFileSync(join(root, `docs/${page}.md`), '# There\n')
  writeFileSync(
    join(root, 'README.md'),
    '[b](docs/b.md)\n\n## Read on\n\n[a](docs/a.md) [c](docs/c.md) [c](docs/c.md)\n',
  )
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts/check-doc-paths.ts')])
  const faults = String(stderr)
    .split('\n')
    .filter((line) => / which does not exist$| once$/.test(line))
  expect([status, faults]).toEqual([
    1,
    [
      'PAGE.md names lib/lost.ts, which does not exist',
      'lib/a.ts names lib/gone.ts, which does not exist',
      'lib/a.ts names missing.ts, which does not exist',
      'PAGE.md names docs/a.md#lost, which does not exist',
      'README.md, section "Read on", does not name docs/b.md once',
      'README.md, section "Read on", does not name docs/c.md once',
    ],
  ])
})
