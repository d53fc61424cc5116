/** The tables of docs/load.md behind the rows: latencies by minute and kind, errors, lag, and what a request costs. */

import { quantile } from '../bench.ts'
import type { Costs } from './costs.ts'
import { agentCount, kinds, mixText } from './mix.ts'
import { latenciesOf } from './rows.ts'
import type { TrialResult } from './trial.ts'

export function fleetTables(trial: TrialResult): string {
  const { stack, minutes, perSecond, load } = trial
  const load_ = `${agentCount} agents, ${perSecond} requests a second, ${minutes} minutes`
  return [
    `### ${stack}: ${load_}`,
    '',
    `Of a hundred requests: ${mixText()}. All latencies are in ms, from the moment at which a request should have left.`,
    '',
    ...latencyTable(trial),
    '',
    ...minuteTable(trial),
    '',
    ...errorLines(load),
    '',
    ...lagTable(trial),
    '',
    ...costTable(trial),
    '',
    ...countTable(trial),
    ...(trial.costs ? ['', ...costsTables(trial.costs)] : []),
  ].join('\n')
}

function latencyTable({ load }: TrialResult): string[] {
  const rows = kinds.map((kind) => {
    const all = latenciesOf(load, kind)
    return all.length === 0
      ? []
      : [kind, count(all.length), ...[0.5, 0.95, 0.99, 1].map((share) => ms(all, share))]
  })
  return table(
    ['kind', 'answered', 'p50', 'p95', 'p99', 'max'],
    rows.filter((row) => row.length > 0),
  )
}

/** p50, p95, p99 and max of each kind in every minute. */
function minuteTable({ load }: TrialResult): string[] {
  const shown = kinds.filter((kind) => load.minutes.some((one) => one.kind === kind))
  const last = Math.max(...load.minutes.map(({ minute }) => minute))
  const rows = Array.from({ length: last + 1 }, (_, minute) => [
    String(minute + 1),
    ...shown.map((kind) => {
      const all = load.minutes.find((one) => one.minute === minute && one.kind === kind)?.latencies ?? []
      if (all.length === 0) return ''
      return `${all.length}: ${[0.5, 0.95, 0.99, 1].map((share) => ms(all, share)).join(' / ')}`
    }),
  ])
  return table(['minute', ...shown.map((kind) => `${kind}: p50 / p95 / p99 / max`)], rows)
}

function errorLines({ errors, samples }: TrialResult['load']): string[] {
  if (errors.length === 0) return ['No request got an error.']
  const rows = errors.map((one) => [String(one.minute + 1), one.kind, `\`${one.code}\``, String(one.count)])
  const first =
    samples[0] === undefined ? [] : ['', `The first: ${samples[0].replaceAll('|', ' ').slice(0, 300)}`]
  return [...table(['minute', 'kind', 'code', 'requests'], rows), ...first]
}

/** Every group and target that was ever behind. */
function lagTable({ observations, end }: TrialResult): string[] {
  const { quiet } = end
  const seen = [...observations, end.seen]
  const rows = (['lag', 'waiting'] as const).flatMap((which) =>
    Object.keys(end.seen[which]).map((name) => [
      which === 'lag' ? name : `target ${name}`,
      count(Math.max(...seen.map((one) => one[which][name] ?? 0))),
      count(end.seen[which][name] ?? 0),
      count(quiet.seen[which][name] ?? 0),
    ]),
  )
  const head = ['reader group', 'most records behind', 'at the end', `${quiet.seconds.toFixed(0)} s later`]
  return table(head, rows)
}

/** The cost of the whole load, and of the processes at rest. */
function costTable({ begun, settled, end, load }: TrialResult): string[] {
  const { quiet } = end
  const rows = Object.keys(begun.processor)
    .filter((name) => end.seen.processor[name] !== undefined)
    .map((name) => {
      const processor = quiet.seen.processor[name]! - begun.processor[name]!
      const written = quiet.seen.written[name]! - begun.written[name]!
      const memory = [settled.rested.memory[name]!, end.rested.memory[name]!].map((bytes) =>
        count(bytes / 1e6),
      )
      return [
        name,
        `${((processor * 1_000) / load.requests).toFixed(2)} ms`,
        `${((processor / end.seen.seconds) * 100).toFixed(1)} %`,
        `${(written / load.requests / 1_000).toFixed(1)} KB`,
        `${memory[0]} MB`,
        `${memory[1]} MB`,
      ]
    })
  const head = [
    'process',
    'processor, a request',
    'of a core',
    'to disk, a request',
    'memory before',
    'memory at the end',
  ]
  return table(head, rows)
}

function countTable({ counts, load }: TrialResult): string[] {
  const rows = Object.entries(counts)
    .filter(([, added]) => added > 0)
    .map(([name, added]) => [name, count(added), (added / load.requests).toFixed(2)])
  return table(['what the load added', '', 'a request'], rows)
}

/** The cost of a request of each kind by itself. */
function costsTables({ idle, byKind }: Costs): string[] {
  const names = Object.keys(idle.processor).filter((name) => name !== 'processes below the platform')
  const counted = Object.keys(idle.counts).filter((name) =>
    kinds.some((kind) => byKind[kind].counts[name]! >= 0.005),
  )
  const processor = kinds.map((kind) => [
    kind,
    ...names.map((name) => `${(byKind[kind].processor[name]! * 1_000).toFixed(1)} ms`),
  ])
  const counts = counted.map((name) => [
    name,
    idle.counts[name]! >= 0.05 ? idle.counts[name]!.toFixed(1) : '',
    ...kinds.map((kind) => amount(byKind[kind].counts[name]!)),
  ])
  return [
    'Each kind alone, 10 requests a second, less what the platform does at rest (of a core):',
    '',
    ...table(
      ['processor', ...names],
      [...processor, ['at rest', ...names.map((name) => `${(idle.processor[name]! * 100).toFixed(1)} %`)]],
    ),
    '',
    ...table(['a request adds', 'at rest, a second', ...kinds], counts),
  ]
}

function amount(value: number): string {
  if (value < 0.005) return ''
  return value >= 100 ? count(value) : value.toFixed(2)
}

function table(head: string[], rows: string[][]): string[] {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`)
}

function ms(all: readonly number[], share: number): string {
  const value = quantile(all, share)
  return value >= 100 ? value.toFixed(0) : value.toFixed(1)
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en')
}
