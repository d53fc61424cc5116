/** Tantivy, where Python can bring it: installed into a folder of the bench, asked all queries at once. */

import { spawnSync } from 'node:child_process'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../../../node_modules/.cache/bench-tantivy', import.meta.url))
const script = fileURLToPath(new URL('tantivy-peer.py', import.meta.url))
const python = `${folder}/bin/python`
const release = 'tantivy==0.27.0'
const installTimeoutMs = 180_000
const searchTimeoutMs = 600_000
const outputBytesMax = 256 * 2 ** 20

/** The reason why it is absent, or null when it is there. */
export function installTantivy(): string | null {
  if (!existsSync(python) || !imports()) {
    const made = spawnSync('python3', ['-m', 'venv', folder], { timeout: installTimeoutMs, encoding: 'utf8' })
    if (made.error || made.status !== 0) return 'no python3 with venv here'
    spawnSync(python, ['-m', 'pip', 'install', '-q', release], { timeout: installTimeoutMs })
    if (!imports()) {
      rmSync(folder, { recursive: true, force: true })
      return 'pip could not bring it'
    }
  }
  return null
}

function imports(): boolean {
  return spawnSync(python, ['-c', 'import tantivy'], { timeout: installTimeoutMs }).status === 0
}

/** At most 100 ids for each query. */
export function askTantivy(records: string, queries: readonly string[], weighted: boolean): string[][] {
  const file = `${records}.queries.json`
  writeFileSync(file, JSON.stringify(queries))
  const args = [script, records, file, weighted ? 'weighted' : 'plain']
  const asked = spawnSync(python, args, {
    timeout: searchTimeoutMs,
    maxBuffer: outputBytesMax,
    encoding: 'utf8',
  })
  if (asked.status !== 0) throw new Error(`tantivy: ${asked.stderr.slice(-300)}`)
  return JSON.parse(asked.stdout) as string[][]
}
