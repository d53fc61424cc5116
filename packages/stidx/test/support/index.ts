/** Builds small indexes for the tests of local search. */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BuildOptions, buildIndex } from '../../src/build.ts'
import type { BuildReport, LocalIndex } from '../../src/contract.ts'
import { openIndex } from '../../src/index-file.ts'
import { temporaryFolder } from './temporary.ts'

export interface Built {
  file: string
  folder: string
  report: BuildReport
  open(): LocalIndex
  bytes(): Buffer
}

/** Lines are objects, or strings that are written as they are. */
export function buildFrom(lines: readonly unknown[], options: Partial<BuildOptions> = {}): Built {
  const folder = temporaryFolder()
  const input = join(folder, 'records.jsonl')
  const file = join(folder, 'index.stidx')
  writeFileSync(input, linesOf(lines))
  const report = buildIndex({ input, output: file, ...options })
  return { file, folder, report, open: () => openIndex(file), bytes: () => readFileSync(file) }
}

export function linesOf(lines: readonly unknown[]): string {
  return lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join('')
}

/** Deterministic numbers from 0 to below 1. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

/** Records with words of uneven frequency, ties, filters and several writings. */
export function sampleRecords(count: number, seed = 1): Record<string, unknown>[] {
  const random = seededRandom(seed)
  const pick = (from: readonly string[]) => from[Math.floor(random() ** 2 * from.length)]!
  const words = (most: number) =>
    Array.from({ length: 1 + Math.floor(random() * most) }, () => pick(vocabulary)).join(' ')
  return Array.from({ length: count }, (_, i) => ({
    id: `rec-${i}`,
    title: words(5),
    ...(random() < 0.7 ? { slug: words(2).replaceAll(' ', '-').toLowerCase() } : {}),
    path: `notes/${pick(vocabulary)}/${i}.md`,
    body: words(60),
    collection: pick(['posts', 'fleet_notes', 'knowledgebase']),
    status: pick(['active', 'archived']),
    tags: [pick(['ops', 'security', 'deep sea']), pick(['ops', 'whale'])],
    ...(random() < 0.6 ? { updated_at: `2026-0${1 + Math.floor(random() * 9)}-11T10:00:00Z` } : {}),
  }))
}

const vocabulary =
  'the of deploy running runs whale ocean deployment green blue gateway index vector searching search camelCaseName café 東京 東京都 рыба السلام compress node_modules retry retries zebra quokka lighthouse'.split(
    ' ',
  )
