/** Times the building of an index next to FTS5 over the same lines, each in a process of its own. */

import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const timeoutMs = 600_000

export interface Building {
  wallMs: number
  cpuMs: number
}

export interface OwnBuilding extends Building {
  rssBytesMax: number
}

/** The command as it is shipped, with its limits of memory for the whole process, its start included. */
export function buildOurs(input: string, output: string): OwnBuilding {
  const file = `${output}.usage`
  const command = [pathOf('../bin/stidx.cjs'), 'index-jsonl', '--input', input, '--output', output]
  run(['--require', pathOf('usage.cjs'), ...command], { USAGE_FILE: file })
  const building = JSON.parse(readFileSync(file, 'utf8')) as OwnBuilding
  rmSync(file)
  return building
}

function buildPeer(input: string, output: string): Building {
  return JSON.parse(run([pathOf('build-fts5.ts'), input, output])) as Building
}

function run(args: string[], env: Record<string, string> = {}): string {
  const ended = spawnSync(process.execPath, args, {
    timeout: timeoutMs,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  })
  if (ended.status === 0) return ended.stdout
  throw new Error(`a build failed: ${ended.error?.message ?? ended.stderr.slice(-500)}`)
}

/** The least of several runs in turns, by processor time. */
export function buildBoth(
  input: string,
  ours: string,
  fts5: string,
  rounds: number,
): { ours: OwnBuilding; fts5: Building } {
  const runs: { ours: OwnBuilding[]; fts5: Building[] } = { ours: [], fts5: [] }
  for (let round = 0; round < rounds; round++) {
    runs.fts5.push(buildPeer(input, fts5))
    runs.ours.push(buildOurs(input, ours))
  }
  const least = <T extends Building>(all: T[]) => all.sort((a, b) => a.cpuMs - b.cpuMs)[0]!
  return { ours: least(runs.ours), fts5: least(runs.fts5) }
}
