/** Bench rows as a table for people, with the machine's facts above it, and as Markdown for docs/benchmarks.md. */

import { readFileSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import Table from 'cli-table3'
import { type BenchRow, figureOf, passes } from './bench.ts'

export function machineFacts(): string {
  const cpu = os.cpus()
  return [
    `${cpu.length} cores (${cpu[0]?.model.trim() ?? 'unknown'})`,
    `${Math.round(os.totalmem() / 2 ** 30)} GiB`,
    `${os.type()} ${os.arch()}`,
    `Node ${process.versions.node}`,
    `load ${os
      .loadavg()
      .map((load) => load.toFixed(1))
      .join(' ')}`,
  ].join(', ')
}

const head = ['what', 'measured', 'compared with', 'ratio', 'bar', 'goal', '', 'note']

export function renderTable(rows: readonly BenchRow[]): string {
  const table = new Table({ head, style: { head: [], border: [] } })
  for (const row of rows) table.push(cells(row))
  return table.toString()
}

/** Replaces the section of one bench in a page by this run's table, and what more there is to show. */
export function saveMarkdown(
  file: URL,
  name: string,
  purpose: string,
  rows: readonly BenchRow[],
  more?: string,
): void {
  const lines = [
    `<!-- ${name}: made by npm run bench -->`,
    `## ${name}`,
    '',
    `${purpose}. ${new Date().toISOString().slice(0, 10)}; ${machineFacts()}.`,
    '',
    `| ${head.join(' | ')} |`,
    `|${head.map(() => '---').join('|')}|`,
    ...rows.map((row) => `| ${cells(row).join(' | ')} |`),
    ...(more === undefined ? [] : ['', more]),
    `<!-- end ${name} -->`,
  ]
  const section = lines.join('\n')
  const text = readFileSync(file, 'utf8')
  const old = new RegExp(`<!-- ${name}: made by[\\s\\S]*?<!-- end ${name} -->`)
  writeFileSync(file, old.test(text) ? text.replace(old, () => section) : `${text.trimEnd()}\n\n${section}\n`)
}

function cells(row: BenchRow): string[] {
  const ratio = row.ratio ?? (row.peer ? figureOf(row) : undefined)
  return [
    row.what,
    `${number(row.measured)} ${row.unit}`,
    row.peer ? `${row.peer.what}: ${number(row.peer.value)} ${row.unit}` : '',
    ratio === undefined ? '' : `${ratio.toFixed(2)}x`,
    limit(row.bar),
    limit(row.goal),
    row.bar ? (passes(row) ? 'pass' : 'MISS') : '',
    row.note ?? '',
  ]
}

function limit(bar: BenchRow['bar']): string {
  if (bar?.max !== undefined) return `≤ ${bar.max}`
  return bar?.min === undefined ? '' : `≥ ${bar.min}`
}

function number(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  return value >= 1000 ? Math.round(value).toLocaleString('en') : value.toFixed(value < 10 ? 2 : 1)
}
