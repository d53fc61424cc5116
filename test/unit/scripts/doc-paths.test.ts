/** Paths that pages and comments name are found, and what only looks like one is not. */

import { expect, it } from 'vitest'
import { commentsOf, namesOfComments, pathsOfComments, pathsOfPage } from '../../../scripts/doc-paths.ts'

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

it('leaves out what means several files, what is made, and what only looks like a path of ours', () => {
  const comments = `/* lib/*.ts lib/{a,b}.ts console/dist/index.html node_modules/a/b test/fixtures/NAME
    https://lib/a.ts @scope/lib #lib/a.ts ./lib/a.ts */`
  expect(pathsOfComments(comments)).toEqual([])
})

it('finds paths of pages in backticks alone', () => {
  expect(pathsOfPage('`lib/a.ts`, `docs/`, lib/b.ts and `lib/*.ts`')).toEqual(['lib/a.ts', 'docs/'])
})
