/** The commit that is released: everything in the tarballs comes from it. */

import { spawnSync } from 'node:child_process'
import { packedPaths } from '../pack/packed-files.ts'
import { projectRoot } from '../source-files.ts'

/** More would hide the other faults. */
const namesMax = 5

/** The time of the commit, which is the time of all that is made; null where there is none. */
export function commitTime(): string | null {
  const seconds = git(['log', '-1', '--format=%ct'])
  return seconds === null ? null : new Date(Number(seconds) * 1000).toISOString()
}

/** What would be in the tarballs and is in no commit. */
export function commitFaults(): string[] {
  if (git(['rev-parse', '--verify', 'HEAD']) === null)
    return ['there is no commit here: release from a clone of the repository']
  const changed = linesOf(git(['status', '--porcelain'])).map((line) => line.slice(3))
  const ignored = linesOf(git(['ls-files', '-oi', '--exclude-standard', '--', ...packedPaths]))
  const foreign = ignored.filter((file) => !/(^|\/)dist\//.test(file))
  return [
    ...(changed.length > 0 ? [`no commit holds ${named(changed)}: commit or stash the changes`] : []),
    ...(foreign.length > 0 ? [`git ignores ${named(foreign)}, which would be packed: move it away`] : []),
  ]
}

function named(files: readonly string[]): string {
  const more = files.length - namesMax
  return files.slice(0, namesMax).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

function linesOf(text: string | null): string[] {
  return (text ?? '').split('\n').filter((line) => line !== '')
}

/** Null where it fails. */
function git(args: string[]): string | null {
  const { status, stdout } = spawnSync('git', args, { cwd: projectRoot, encoding: 'utf8' })
  return status === 0 ? stdout : null
}
