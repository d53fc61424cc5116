/** Reads only the names from the targets file: that works without its variables, which an operator's shell need not have. */

import { readFileSync } from 'node:fs'
import type { Environment } from '#lib/config.ts'
import { choicesOf } from '#runtime/start/settings.ts'
import { isMap, parseYaml } from '#runtime/yaml-file/parse-yaml.ts'
import { targetsFileOf } from '#services/webhooks/targets/targets-file.ts'

interface NamedTargets {
  path: string
  /** Null when the file cannot be read here. */
  names: ReadonlySet<string> | null
}

export function namedTargets(env: Environment): NamedTargets {
  const { path, optional } = targetsFileOf(env)
  try {
    const { value, faults } = parseYaml(readFileSync(path, 'utf8'))
    if (faults.length > 0 || !isMap(value)) return { path, names: null }
    return { path, names: new Set(Object.keys(isMap(value.targets) ? value.targets : {})) }
  } catch (error) {
    // On embedded engines the data directory is the platform's own: no file there means no targets.
    const none =
      optional && (error as NodeJS.ErrnoException).code === 'ENOENT' && choicesOf(env).eventLog.embedded
    return { path, names: none ? new Set() : null }
  }
}
