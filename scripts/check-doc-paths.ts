/**
 * Fails when a page or a comment names a file or folder of the project that is not there, when a link of a page leads nowhere,
 * and when the contents in the README do not name each page of docs/ once: texts that lie are worse than none.
 */

import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import {
  anchorsOfPage,
  commentsOf,
  linksOfPage,
  namesOfComments,
  pathsOfComments,
  pathsOfPage,
} from './doc-paths.ts'
import { projectRoot } from './source-files.ts'

const folders = new Set(
  readdirSync(projectRoot, { withFileTypes: true })
    // Files of the playground belong to its user.
    .filter((entry) => entry.isDirectory() && entry.name !== 'playground')
    .map((entry) => entry.name),
)

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
  cwd: projectRoot,
  encoding: 'utf8',
}).split('\n')
const pages = files.filter((file) => /^(docs\/)?[^/]+\.md$/.test(file))
// Published migrations never change, whatever moves.
const sources = files.filter(
  (file) => /\.(ts|tsx|js|cjs|mjs|sql)$/.test(file) && !/(^|\/)(fixtures|migrations)\//.test(file),
)

const names = new Set(files.map((file) => basename(file)))

/** In a comment a path may be meant from the file's own folder or package, too. */
function isThere(path: string, file: string): boolean {
  const [, inPackage = ''] = /^(packages\/[^/]+|console)\//.exec(file) ?? []
  return ['', dirname(file), inPackage].some((from) => existsSync(join(projectRoot, from, path)))
}

function leadsSomewhere(path: string, anchor: string): boolean {
  return existsSync(join(projectRoot, path)) && (anchor === '' || anchorsOfPage(textOf(path)).has(anchor))
}

const isOurs = (path: string) => folders.has(path.split('/')[0]!)
/** A file may be deleted and not committed yet. */
const textOf = (file: string) =>
  existsSync(join(projectRoot, file)) ? readFileSync(join(projectRoot, file), 'utf8') : ''

const ofPages = pages.flatMap((file) =>
  pathsOfPage(textOf(file))
    .filter((path) => isOurs(path) && !existsSync(join(projectRoot, path)))
    .map((path) => ({ file, path })),
)
const ofComments = sources.flatMap((file) => {
  const comments = commentsOf(file, textOf(file))
  const paths = pathsOfComments(comments).filter((path) => isOurs(path) && !isThere(path, file))
  return [...paths, ...namesOfComments(comments).filter((name) => !names.has(name))].map((path) => ({
    file,
    path,
  }))
})
const ofLinks = files
  .filter((file) => file.endsWith('.md') && !file.includes('/fixtures/'))
  .flatMap((file) =>
    linksOfPage(textOf(file))
      .filter(({ path, anchor }) => !leadsSomewhere(join(dirname(file), path || basename(file)), anchor))
      .map(({ path, anchor }) => ({ file, path: anchor === '' ? path : `${path}#${anchor}` })),
  )
const faults = [...ofPages, ...ofComments, ...ofLinks]
for (const { file, path } of faults) console.error(`${file} names ${path}, which does not exist`)

const [, contents = ''] = textOf('README.md').split('\n## Read on\n')
const named = linksOfPage(contents).map(({ path }) => path)
const miscounted = files.filter(
  (file) => /^docs\/[^/]+\.md$/.test(file) && named.filter((path) => path === file).length !== 1,
)
for (const file of miscounted) console.error(`README.md, section "Read on", does not name ${file} once`)
process.exitCode = faults.length + miscounted.length === 0 ? 0 : 1
