/** Fails when a page names a file or folder of the project that is not there: pages that lie are worse than none. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from './source-files.ts'

/** A path in backticks that begins with a folder of the project. Braces and stars stand for several files: not checked. */
const pathPattern = /`((?:[a-z-]+\/)+[\w.-]*)`/g

const folders = new Set(
  readdirSync(projectRoot, { withFileTypes: true })
    // What people keep in the playground is theirs.
    .filter((entry) => entry.isDirectory() && entry.name !== 'playground')
    .map((entry) => entry.name),
)

function pages(): string[] {
  const inFolder = (folder: string) =>
    readdirSync(join(projectRoot, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name))
  return [...inFolder('.'), ...inFolder('docs')]
}

const faults = pages().flatMap((page) => {
  const text = readFileSync(join(projectRoot, page), 'utf8')
  return [...text.matchAll(pathPattern)]
    .map((match) => match[1]!)
    .filter((path) => folders.has(path.split('/')[0]!) && !existsSync(join(projectRoot, path)))
    .map((path) => `${page} names ${path}, which does not exist`)
})
for (const fault of faults) console.error(fault)
process.exitCode = faults.length === 0 ? 0 : 1
