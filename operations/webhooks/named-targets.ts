/** Reads only the names from the targets file: that works without its variables, which an operator's shell need not have. */

import { readFileSync } from 'node:fs'
import type { Environment } from '#lib/config.ts'
import { choicesOf } from '#runtime/start/settings.ts'
import { type Fault, parseLocated } from '#runtime/yaml-file/located-yaml.ts'
import { targetsFileOf } from '#services/webhooks/targets/targets-file.ts'

interface NamedTargets {
  path: string
  /** Null when the file cannot be read here. */
  names: ReadonlySet<string> | null
}

export function namedTargets(env: Environment): NamedTargets {
  const { path, optional } = targetsFileOf(env)
  const faults: Fault[] = []
  try {
    const root = parseLocated(readFileSync(path, 'utf8'), faults)
    if (faults.length > 0 || root?.kind !== 'map') return { path, names: null }
    const targets = root.entries.find((entry) => entry.name === 'targets')?.value
    const entries = targets?.kind === 'map' ? targets.entries : []
    return { path, names: new Set(entries.map((entry) => entry.name)) }
  } catch (error) {
    // On embedded engines the data directory is the platform's own: no file there means no targets.
    const none =
      optional && (error as NodeJS.ErrnoException).code === 'ENOENT' && choicesOf(env).eventLog.embedded
    return { path, names: none ? new Set() : null }
  }
}
