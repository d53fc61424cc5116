/** Building an index, beside FTS5 over the same lines, each in a process of its own. */

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const child = fileURLToPath(new URL('build-child.ts', import.meta.url))
const timeoutMs = 1_800_000

export interface Building {
  wallMs: number
  cpuMs: number
  rssBytesMax: number
}

export function build(kind: 'ours' | 'fts5', input: string, output: string): Building {
  const ended = spawnSync(process.execPath, [child, kind, input, output], {
    timeout: timeoutMs,
    encoding: 'utf8',
  })
  if (ended.status !== 0) throw new Error(`building ${output}: ${ended.stderr.slice(-500)}`)
  // The command prints a line of its own before.
  return JSON.parse(ended.stdout.split('\n').at(-1)!) as Building
}

/** The least of several runs in turns, by processor time. */
export function buildBoth(
  input: string,
  ours: string,
  fts5: string,
  rounds: number,
): { ours: Building; fts5: Building } {
  const runs: { ours: Building[]; fts5: Building[] } = { ours: [], fts5: [] }
  for (let round = 0; round < rounds; round++) {
    runs.fts5.push(build('fts5', input, fts5))
    runs.ours.push(build('ours', input, ours))
  }
  const least = (all: Building[]) => all.sort((a, b) => a.cpuMs - b.cpuMs)[0]!
  return { ours: least(runs.ours), fts5: least(runs.fts5) }
}
