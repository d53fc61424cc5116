/** Runs a script of the project, for another one. */

import { spawnSync } from 'node:child_process'
import { projectRoot } from './source-files.ts'

/** What it wrote to standard output. Throws where it fails. */
export function runScript(args: string[]): string {
  const stdio: ['ignore', 'pipe', 'inherit'] = ['ignore', 'pipe', 'inherit']
  const { status, stdout } = spawnSync(process.execPath, args, { cwd: projectRoot, stdio, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${args.join(' ')} failed`)
  return stdout
}
