/**
 * The second tier: suites over the whole platform that guard what rarely breaks. A run of CI takes the quarter that its commit
 * names, and those whose files were changed lately; `npm run test:long` takes all.
 */

import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

/** About equally long. A file that is in none of them fails test/unit/scripts/quarters.test.ts. */
export const quarters: readonly (readonly string[])[] = [
  [
    'rolling-upgrade-1d37966-forward.test.ts',
    'consumer-memory.test.ts',
    'log-records-embedded.test.ts',
    'chart.test.ts',
  ],
  [
    'rolling-upgrade-1d37966-back.test.ts',
    'api-clients-python.test.ts',
    'courier-kill.test.ts',
    'containers.test.ts',
    'image.test.ts',
  ],
  [
    'rolling-upgrade-6a6b61e-forward.test.ts',
    'console-pictures.test.ts',
    'event-log-embedded.test.ts',
    'vectors-kills.test.ts',
    'release.test.ts',
  ],
  [
    'rolling-upgrade-6a6b61e-back.test.ts',
    'api-clients-typescript.test.ts',
    'platform-kills.test.ts',
    'runs-dispatchers.test.ts',
  ],
]

/** Suites that check files without running the platform, with what they read. */
export const staticSuites: Readonly<Record<string, readonly string[]>> = {
  'chart.test.ts': ['deploy/charts', 'test/long/chart.test.ts'],
  'containers.test.ts': [
    'Dockerfile',
    'docker-compose.yml',
    'deploy/compose',
    'deploy/images',
    'deploy/monitoring',
    'docs/reverse-proxy.md',
    'test/long/containers.test.ts',
  ],
  'release.test.ts': [
    'scripts/release.ts',
    'scripts/release',
    'scripts/pack.ts',
    'scripts/pack',
    'package-lock.json',
    'test/long/release.test.ts',
  ],
}

/** Suites that take minutes and are in no quarter: only `npm run test:long` runs them. */
export const wholeOnly = ['fleet-faults.test.ts', 'whole-log.test.ts']

/** Paths of the suites of a quarter (0 to 3). */
export function suitesOf(quarter: number, isChanged = changedLately): string[] {
  const files = quarters[quarter]
  if (files === undefined) throw new Error(`there is no quarter ${quarter}: 0 to 3`)
  const changed = Object.keys(staticSuites).filter((file) => isChanged(staticSuites[file]!))
  return [...new Set([...files, ...changed])].map((file) => `test/long/${file}`)
}

/** Within a day: longer than a change takes from its commit to its run of CI. */
function changedLately(paths: readonly string[]): boolean {
  const args = ['log', '-1', '--format=%h', '--since=1.day', '--', ...paths]
  return (
    execFileSync('git', args, { encoding: 'utf8', cwd: join(import.meta.dirname, '../..') }).trim() !== ''
  )
}
