/**
 * Fails when a page or a comment names a file or folder of the project that is not there: texts that lie are worse than
 * none.
 */

import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { commentsOf, namesOfComments, pathsOfComments, pathsOfPage } from './doc-paths.ts'
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
const faults = [...ofPages, ...ofComments]
for (const { file, path } of faults) console.error(`${file} names ${path}, which does not exist`)
process.exitCode = faults.length === 0 ? 0 : 1
