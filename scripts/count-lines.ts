/**
 * Counts the lines of the project's own source, by top-level folder, tests apart.
 *
 *   node scripts/count-lines.ts
 */

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from './source-files.ts'

const source = /\.(ts|tsx|js|cjs|mjs|css|html|sql|sh|py|java)$/
/** Made by a script, and committed. */
const madeFiles = new Set(['console/src/schema.d.ts', 'schemas/types.ts'])
const test = /(^|\/)test\//

interface Count {
  files: number
  lines: number
}

const counts = new Map<string, { source: Count; tests: Count; made: Count }>()
const nothing = () => ({ source: zero(), tests: zero(), made: zero() })
const zero = (): Count => ({ files: 0, lines: 0 })

const listed = execFileSync('git', ['ls-files', '-z'], { cwd: projectRoot, encoding: 'utf8' })
for (const path of listed.split('\0')) {
  if (!source.test(path)) continue
  const folder = path.includes('/') ? path.slice(0, path.indexOf('/')) : '(root)'
  const lines = readFileSync(join(projectRoot, path), 'utf8').split('\n').length - 1
  const isMade = madeFiles.has(path)
  for (const name of [folder, 'in all']) {
    const count = counts.get(name) ?? nothing()
    counts.set(name, count)
    const one = count[isMade ? 'made' : test.test(path) ? 'tests' : 'source']
    one.files += 1
    one.lines += lines
  }
}

const row = (cells: readonly (string | number)[]) =>
  cells.map((cell, n) => (n === 0 ? String(cell).padEnd(12) : String(cell).padStart(9))).join(' ')
console.log(row(['', 'files', 'lines', 'tests', 'lines', 'made', 'lines']))
const ordered = [...counts].sort(([, a], [, b]) => a.source.lines - b.source.lines)
for (const [name, { source: own, tests, made: other }] of ordered) {
  console.log(row([name, own.files, own.lines, tests.files, tests.lines, other.files, other.lines]))
}
