/** The files of a checkout that the platform needs to run, packed as a fixture; a later version runs next to it. */

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { projectRoot } from '../source-files.ts'
import { pack } from './archive.ts'

/** Folders and files of the repository; dependencies are those of the checkout that unpacks it. */
const parts = [
  ...['bin', 'cli', 'engines', 'lib', 'operations', 'packages', 'runtime', 'schemas', 'services', 'topics'],
  'package.json',
]
const leftOut = ['./packages/*/test', './checkout.tar']

/** Packs a commit of the history into a file. */
export async function packSource(commit: string, file: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  try {
    const archive = join(folder, 'checkout.tar')
    execFileSync('git', ['archive', '--output', archive, commit, '--', ...parts], { cwd: projectRoot })
    execFileSync('tar', ['-C', folder, '-xf', archive])
    await pack(folder, file, leftOut)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
