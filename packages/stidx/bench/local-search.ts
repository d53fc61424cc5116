/**
 * The bench of local search next to a bare Node, SQLite FTS5, minisearch and tantivy: starts, searches, builds,
 * relevance.
 */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Bench, type BenchRow, figureOf } from '../../../bench/bench.ts'
import { openIndex } from '../src/index-file.ts'
import { type Building, buildBoth, buildOurs } from './building.ts'
import { type Corpus, loadDebian } from './debian.ts'
import { commonestPhrases, loadAbstracts, makeQueries, makeTypos, writeRecords } from './generate.ts'
import type { Latencies } from './in-process.ts'
import { type Shot, slowestOf, timeShots } from './one-shot.ts'
import { relevanceRows } from './relevance.ts'

const records = 100_000
const manyRecords = 1_000_000
const queriesCount = 300
/** The queries of one round for slow peers: minisearch takes some seconds for a hundred of them. */
const slowPeerQueries = 100
const rounds = 30
const searchRounds = 3
const inProcessTimeoutMs = 300_000
const buildRounds = 3
const mebibyte = 2 ** 20

type Report = (text: string) => void

interface Stage {
  folder: string
  corpus: Corpus
  queries: string[]
  input: string
  ours: string
  fts5: string
}

export const localSearchBench: Bench = {
  name: 'local-search',
  purpose: `one-shot and in-process searches over ${records.toLocaleString('en')} records, building, ${manyRecords.toLocaleString('en')} records, and relevance`,
  async run(report) {
    const folder = mkdtempSync(join(tmpdir(), 'fl-bench-'))
    try {
      const corpus = loadDebian(report) ?? loadAbstracts()
      report(`  corpus: ${corpus.source}`)
      const stage: Stage = {
        folder,
        corpus,
        queries: makeQueries(corpus, queriesCount, 1),
        input: join(folder, 'records.jsonl'),
        ours: join(folder, 'index.stidx'),
        fts5: join(folder, 'fts5.db'),
      }
      writeRecords(stage.input, corpus, records)
      const parts: [string, () => BenchRow[]][] = [
        ['building, next to FTS5', () => buildRows(stage, report)],
        ['one shot', () => oneShotRows(stage, report)],
        ['in process', () => inProcessRows(stage, report)],
        [`${manyRecords.toLocaleString('en')} records`, () => manyRecordsRows(stage, report)],
        ['relevance', () => relevanceRows(stage.corpus, folder, report)],
      ]
      const startedAt = performance.now()
      return parts.flatMap(([name, part]) => {
        report(`after ${Math.round((performance.now() - startedAt) / 1000)} s: ${name}`)
        const rows = part()
        for (const row of rows)
          report(`  ${row.what}: ${figureOf(row).toFixed(3)}${row.peer ? ` of ${row.peer.what}` : ''}`)
        return rows
      })
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

function buildRows({ input, ours, fts5, corpus }: Stage, report: Report): BenchRow[] {
  const built = buildBoth(input, ours, fts5, buildRounds)
  const inputBytes = statSync(input).size
  const rate = (building: Building) => records / (building.cpuMs / 1000)
  report(`  built: ours ${seconds(built.ours)}, FTS5 ${seconds(built.fts5)}`)
  const sections = shareOf(ours)
  return [
    {
      what: `index of ${records.toLocaleString('en')} records (${(inputBytes / mebibyte).toFixed(0)} MiB of JSON lines)`,
      unit: 'MiB',
      measured: statSync(ours).size / mebibyte,
      peer: { what: 'FTS5', value: statSync(fts5).size / mebibyte },
      bar: { max: 1 },
      note: `${corpus.source}; stored records are ${sections}`,
    },
    {
      what: 'building, records a second of processor time',
      unit: '/s',
      measured: rate(built.ours),
      peer: { what: 'FTS5', value: rate(built.fts5) },
      bar: { min: 0.5 },
      note: `${seconds(built.ours)}, FTS5 ${seconds(built.fts5)}; least of ${buildRounds} rounds in turns; peak memory ${Math.round(built.ours.rssBytesMax / 1e6)} MB`,
    },
  ]
}

function shareOf(file: string): string {
  const index = openIndex(file)
  const { sections, bytes } = index.stats()
  index.close()
  return `${Math.round((100 * (sections.records ?? 0)) / bytes)} % of it`
}

function seconds({ wallMs, cpuMs }: Building): string {
  return `${(wallMs / 1000).toFixed(1)} s (${(cpuMs / 1000).toFixed(1)} s of processor)`
}

function oneShotRows({ ours, corpus, queries }: Stage, report: Report): BenchRow[] {
  const search = (query: string): Shot => ['search', query, '--index', ours]
  const first = (words: number) => queries.find((query) => query.split(' ').length === words)!
  const slowest = slowestOf(queries.map(search))
  report('  the slowest queries are known')
  const shots: Shot[] = [
    ['get', corpus.records[corpus.records.length >> 1]!.id, '--index', ours],
    search(first(1)),
    search(first(3)),
    search(makeTypos(corpus, 1, 2)[0]!),
    ...slowest,
  ]
  const { bare, shots: times } = timeShots(shots, rounds)
  const row = (what: string, measured: number, bar: number, goal: number, note: string): BenchRow => ({
    what: `one shot: ${what}`,
    unit: 'ms',
    measured,
    peer: { what: 'node -e 0', value: bare },
    bar: { max: bar },
    goal: { max: goal },
    note,
  })
  const slow = times.slice(4)
  const most = Math.max(...slow)
  return [
    row('get', times[0]!, 1.15, 1.05, shots[0]![1]!),
    row('one word', times[1]!, 1.15, 1.05, shots[1]![1]!),
    row('three words', times[2]!, 1.3, 1.15, shots[2]![1]!),
    row(`slowest of ${queries.length}`, most, 2, 1.4, slowest[slow.indexOf(most)]![1]!),
    row('two typos', times[3]!, 2.2, 1.4, shots[3]![1]!),
  ]
}

function inProcessRows({ folder, input, ours, fts5, queries }: Stage, report: Report): BenchRow[] {
  const time = (kind: string, file: string, asked: readonly string[], searchRounds: number) => {
    const queriesFile = join(folder, 'queries.json')
    writeFileSync(queriesFile, JSON.stringify(asked))
    const script = fileURLToPath(new URL('in-process.ts', import.meta.url))
    const args = ['--max-old-space-size=4096', script, 'peer', kind, file, queriesFile, String(searchRounds)]
    const ended = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: inProcessTimeoutMs })
    if (ended.status !== 0) throw new Error(`${kind}: ${ended.error?.message ?? ended.stderr.slice(-500)}`)
    const times = JSON.parse(ended.stdout) as Latencies
    report(
      `  ${kind}, ${asked.length} queries: p50 ${times.p50.toFixed(2)} ms, p95 ${times.p95.toFixed(2)} ms`,
    )
    return times
  }
  const rows = (own: Latencies, peer: Latencies, what: string, asked: number, note?: string): BenchRow[] =>
    (['p50', 'p95'] as const).map((quantile) => ({
      what: `in process: ${quantile} of ${asked} queries`,
      unit: 'ms',
      measured: own[quantile],
      peer: { what, value: peer[quantile] },
      bar: { max: 0.1 },
      ...(note ? { note } : {}),
    }))
  const few = queries.slice(0, slowPeerQueries)
  return [
    ...rows(
      time('ours', ours, queries, searchRounds),
      time('fts5', fts5, queries, searchRounds),
      'SQLite FTS5',
      queries.length,
      `least of ${searchRounds} rounds, both`,
    ),
    ...rows(
      time('ours', ours, few, 1),
      time('minisearch', input, few, 1),
      'minisearch',
      few.length,
      'one round, both',
    ),
  ]
}

/** The beginnings of most words, of most different names, and of numbers, of which each record has its own. */
const broadBeginnings = ['a*', 's*', 't*', 'lib*', '1*']

/** Figures that must not grow with the records: opening, and the memory of building. */
function manyRecordsRows({ folder, corpus, queries, ours }: Stage, report: Report): BenchRow[] {
  const input = join(folder, 'many.jsonl')
  const many = join(folder, 'many.stidx')
  const few = join(folder, 'few.stidx')
  writeRecords(input, corpus, 1_000)
  buildOurs(input, few)
  writeRecords(input, corpus, manyRecords)
  report(`  ${manyRecords.toLocaleString('en')} records are written`)
  const built = buildOurs(input, many)
  rmSync(input)
  report(`  built ${manyRecords.toLocaleString('en')} records: ${seconds(built)}`)
  const get = (index: string): Shot => ['get', corpus.records[500]!.id, '--index', index]
  const one = queries.find((query) => !query.includes(' '))!
  const broad = [...commonestPhrases(corpus, [2, 4]).map((phrase) => `"${phrase}"`), ...broadBeginnings]
  const shots: Shot[] = [
    get(few),
    get(many),
    ['search', one, '--index', ours],
    ['search', one, '--index', many],
    ...broad.map((query): Shot => ['search', query, '--index', many]),
  ]
  const { bare, shots: times } = timeShots(shots, rounds)
  const name = manyRecords.toLocaleString('en')
  return [
    {
      what: `building ${name} records: peak memory of the process`,
      unit: 'MB',
      measured: built.rssBytesMax / 1e6,
      bar: { max: 300 },
      note: `${seconds(built)}; the file has ${Math.round(statSync(many).size / mebibyte)} MiB`,
    },
    {
      what: `one shot: get from ${name} records`,
      unit: 'ms',
      measured: times[1]!,
      peer: { what: 'from 1,000', value: times[0]! },
      bar: { max: 1.1 },
    },
    {
      what: `one shot: one word in ${name} records`,
      unit: 'ms',
      measured: times[3]!,
      peer: { what: `in ${records.toLocaleString('en')}`, value: times[2]! },
      note: one,
    },
    ...broad.map((query, i) => ({
      what: `one shot: ${query.startsWith('"') ? 'a common phrase' : 'a broad beginning'} in ${name} records`,
      unit: 'ms',
      measured: times[4 + i]!,
      peer: { what: 'node -e 0', value: bare },
      bar: { max: 5 },
      note: query,
    })),
  ]
}
