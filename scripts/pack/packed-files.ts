/** Which files of the clone are in the package: the sources as JavaScript, all others of these folders as they are. */

import { cpSync } from 'node:fs'
import { basename, join } from 'node:path'
import { projectRoot } from '../source-files.ts'

/** Their .ts files become .js files at the same place. */
const sourceFolders = ['cli', 'engines', 'lib', 'operations', 'runtime', 'schemas', 'services', 'topics']

/** Further parts that run, and those that the docs refer to. */
const others = [
  'bin',
  'console/dist',
  'deploy/images',
  'deploy/monitoring',
  'deploy/packaging',
  'docs',
  'packages/client/dist',
  'packages/client/README.md',
  'packages/client/package.json',
  'packages/client-python/src',
  'packages/client-python/LICENSE',
  'packages/client-python/README.md',
  'packages/client-python/pyproject.toml',
  'packages/stidx/bin',
  'packages/stidx/dist',
  'packages/stidx/docs',
  'packages/stidx/README.md',
  'packages/stidx/package.json',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
]

/** Everything that the package is made of. */
export const packedPaths: readonly string[] = [...sourceFolders, ...others]

/** Copies all files that are packed as they are. */
export function copyFiles(folder: string): void {
  for (const path of packedPaths) {
    cpSync(join(projectRoot, path), join(folder, path), {
      recursive: true,
      filter: (file) => !isLeft(path, file),
    })
  }
}

/** Sources, hidden files, and the pictures of the docs. */
function isLeft(path: string, file: string): boolean {
  if (sourceFolders.includes(path) && file.endsWith('.ts')) return true
  return /^[.]|^__pycache__$/.test(basename(file)) || file === join(projectRoot, 'docs/pictures')
}
