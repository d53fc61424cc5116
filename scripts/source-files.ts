/** Lists the project's own source files, for the checks of this folder. */

import { readdirSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export const projectRoot = fileURLToPath(new URL('..', import.meta.url))

const skipped = new Set(['node_modules', 'docs', 'schemas', 'dist', 'playground'])

/** Made from the main API's description. */
const made = new Set(['schema.d.ts'])

/** Paths of all .ts and .tsx files, relative to the project with `/`, sorted. */
export function sourceFiles(folder = projectRoot): string[] {
  const found: string[] = []
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory()) {
      if (!skipped.has(entry.name)) found.push(...sourceFiles(path))
    } else if (/\.tsx?$/.test(entry.name) && !made.has(entry.name)) {
      found.push(relative(projectRoot, path).split(sep).join('/'))
    }
  }
  return found.sort()
}
