/** The results of the faults, as rows of a table. */

import { readFileSync, writeFileSync } from 'node:fs'
import { machineFacts } from '../../../bench/table.ts'
import type { FaultResult } from './fault.ts'

export const head = [
  'fault',
  'for',
  'what users saw',
  'longest pause',
  'served again after',
  'everything read after',
  'lost',
]

export function rowOf(result: FaultResult): string[] {
  const { name, seconds, pause, servedAfterMs, readAfterMs, faults } = result
  return [
    name,
    `${seconds} s`,
    sawOf(result),
    `${inSeconds(pause.ms)} (${pause.kind})`,
    inSeconds(servedAfterMs),
    inSeconds(readAfterMs),
    faults.length === 0 ? 'nothing' : faults.slice(0, 3).join('; '),
  ]
}

/** The share of calls that were refused while it lasted and until all was well, and how. */
function sawOf({ calls, refused }: FaultResult): string {
  const failed = [...refused].sort(([, one], [, other]) => other - one)
  const count = failed.reduce((sum, [, times]) => sum + times, 0)
  if (count === 0) return `no refusal in ${calls} calls`
  const share = ((100 * count) / calls).toFixed(count / calls < 0.1 ? 1 : 0)
  return `${share} % of ${calls} calls refused: ${failed.map(([what, times]) => `${what} (${times})`).join(', ')}`
}

function inSeconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}

const section = /<!-- faults: made by[\s\S]*?<!-- end faults -->/

/** Replaces these rows of the table in docs/faults.md; those of faults that were not tried now stay. `order`: all faults. */
export function saveTable(results: readonly FaultResult[], order: readonly string[]): void {
  const file = new URL('../../../docs/faults.md', import.meta.url)
  const text = readFileSync(file, 'utf8')
  const rows = new Map<string, string>()
  for (const line of section.exec(text)?.[0].split('\n') ?? []) {
    const name = /^\| ([^|]+) \|/.exec(line)?.[1]
    if (name !== undefined) rows.set(name, line)
  }
  const lineOf = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  for (const result of results) rows.set(result.name, lineOf(rowOf(result)))
  const lines = [
    '<!-- faults: made by npm run faults -->',
    `${new Date().toISOString().slice(0, 10)}; ${machineFacts()}.`,
    '',
    lineOf(head),
    lineOf(head.map(() => '---')),
    ...order.flatMap((name) => rows.get(name) ?? []),
    '<!-- end faults -->',
  ]
  writeFileSync(
    file,
    text.replace(section, () => lines.join('\n')),
  )
}
