/** Which YAML file a setting names. */

import { join, resolve } from 'node:path'
import type { Environment } from '#lib/config.ts'
import { homeOf } from '../start/settings.ts'

export interface NamedFile {
  /** Absolute. */
  path: string
  /** True: it may be absent. */
  optional: boolean
}

/** The file that was named; without one `fileName` in the data directory, which alone may be absent. */
export function namedFile(named: string | undefined, fileName: string, env: Environment): NamedFile {
  return named === undefined
    ? { path: join(homeOf(env), fileName), optional: true }
    : { path: resolve(named), optional: false }
}
