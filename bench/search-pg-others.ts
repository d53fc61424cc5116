/**
 * The cost of one agent's slow conditions (default tier) for others: simple searches of another agent and
 * writes of the mirror, meanwhile compared with alone, on the embedded engine and on PostgreSQL.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'undici'
import { createClient } from '#client/client.ts'
import { createScope, type Scope } from '#lib/resource.ts'
import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import { type Forked, openForked } from './forked.ts'
import { type Caller, openCaller } from './load.ts'
import { createPointSource } from './points.ts'
import { ownServer } from './search-pg.ts'
import type { SearchPgCalls } from './search-pg-platform.ts'

const points = 5_000
const rounds = 7
const searches = 150
const writes = 15
const rowsOfWrite = 10
/** As many as the tier allows. */
const slowAtOnce = 5
/** On titles of 60,000 characters: the first is more than the embedded engine tries, the other takes it long. */
const patterns = [3_900, 200]
const maximum = 1.5

export const searchPgOthersBench: Bench = {
  name: 'search-pg-others',
  purpose: `p95 of simple searches over ${points.toLocaleString('en')} points, and of writes of the mirror, while an agent of the default tier keeps ${slowAtOnce} slow conditions running (LIKE over titles of 60,000 characters), compared with the same alone`,
  async run(report) {
    return [...(await rowsOf('embedded', report)), ...(await rowsOf('PostgreSQL', report))]
  },
}

interface Stage {
  platform: Forked<SearchPgCalls>
  origin: string
  caller: Caller
  keys: { other: string; slow: string }
}

async function rowsOf(
  driver: 'embedded' | 'PostgreSQL',
  report: (text: string) => void,
): Promise<BenchRow[]> {
  const scope = createScope(() => {})
  try {
    const url = driver === 'embedded' ? [] : [await ownServer(scope)]
    const stage = await openStage(scope, url)
    for (let from = 0; from < points; from += 250) {
      await stage.platform.call('write', { from, count: 250, longTitles: true })
    }
    const rows: BenchRow[] = []
    for (const length of patterns) rows.push(...(await compare(driver, stage, length, report)))
    return rows
  } finally {
    await scope.close()
  }
}

async function openStage(scope: Scope, url: string[]): Promise<Stage> {
  const home = mkdtempSync(join(tmpdir(), 'fl-bench-'))
  scope.add('home', { close: async () => rmSync(home, { recursive: true, force: true }) })
  const entry = new URL('./search-pg-platform.ts', import.meta.url)
  const platform = scope.add('gateway', openForked<SearchPgCalls>(entry, [home, ...url]))
  const { vectorUrl, agents } = await platform.call('open', null)
  const keyOf = async (n: number) => {
    const client = createClient({ vectorUrl, ...agents[n]! })
    const key = await client.apiKey()
    await client.close()
    return key
  }
  const caller = scope.add('caller', openCaller(vectorUrl))
  return { platform, origin: vectorUrl, caller, keys: { other: await keyOf(0), slow: await keyOf(1) } }
}

interface Taken {
  search: number[]
  write: number[]
}

/** Rounds in turn, so that both meet the same machine; the median of their ratios. */
async function compare(
  driver: string,
  stage: Stage,
  length: number,
  report: (text: string) => void,
): Promise<BenchRow[]> {
  const found: Record<'alone' | 'meanwhile', Taken> = {
    alone: { search: [], write: [] },
    meanwhile: { search: [], write: [] },
  }
  for (let round = 0; round <= rounds; round++) {
    const alone = await othersOf(stage)
    const slow = startSlow(stage, length)
    const meanwhile = await othersOf(stage)
    report(
      `  ${driver}, ${length} characters, round ${round}: ${shown(alone)} alone, ${shown(meanwhile)} meanwhile; slow: ${await slow.stop()}`,
    )
    if (round === 0) continue // The first round warms both up.
    for (const kind of ['search', 'write'] as const) {
      found.alone[kind].push(quantile(alone[kind], 0.95))
      found.meanwhile[kind].push(quantile(meanwhile[kind], 0.95))
    }
  }
  const what = { search: 'p95 of a simple search', write: `p95 of a write of ${rowsOfWrite} rows` }
  return (['search', 'write'] as const).map((kind) => ({
    what: `${driver}: ${what[kind]} while patterns of ${length} characters run`,
    unit: 'ms',
    measured: median(found.meanwhile[kind]),
    peer: { what: 'alone', value: median(found.alone[kind]) },
    ratio: median(found.meanwhile[kind].map((value, round) => value / found.alone[kind][round]!)),
    ...(kind === 'search' ? { bar: { max: maximum } } : {}),
  }))
}

const source = createPointSource(99)
const vectors = Array.from({ length: searches }, () => source.vector())
let written = points

async function othersOf({ caller, keys, platform }: Stage): Promise<Taken> {
  const headers = { authorization: `Bearer ${keys.other}` }
  const taken: Taken = { search: [], write: [] }
  for (const vector of vectors) {
    const body = Buffer.from(JSON.stringify({ table: 'embeddings', vector }))
    taken.search.push(await caller.post('/v1/vectors/search-pg', body, headers))
  }
  for (let n = 0; n < writes; n++) {
    const given = { from: written, count: rowsOfWrite, longTitles: false }
    taken.write.push(await platform.call('write', given))
    written += rowsOfWrite
  }
  return taken
}

/** Sends slow conditions, each another one, until it is stopped; `stop` resolves with what they were answered. */
function startSlow({ origin, keys }: Stage, length: number): { stop(): Promise<string> } {
  const pool = new Pool(origin, { connections: slowAtOnce })
  const answers = new Map<number, number>()
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${keys.slow}` }
  let over = false
  const work = async (who: number) => {
    for (let n = 0; !over; n++) {
      const filter_sql = `title LIKE '%${'a'.repeat(length)}b${who}${n}%'`
      const body = JSON.stringify({ table: 'embeddings', vector: vectors[0], filter_sql })
      const answer = await pool.request({ method: 'POST', path: '/v1/vectors/search-pg', body, headers })
      await answer.body.dump()
      answers.set(answer.statusCode, (answers.get(answer.statusCode) ?? 0) + 1)
    }
  }
  const working = Promise.all(Array.from({ length: slowAtOnce }, (_, who) => work(who)))
  return {
    async stop() {
      over = true
      await working
      await pool.close()
      return [...answers].map(([status, count]) => `${count} times ${status}`).join(', ')
    },
  }
}

function shown({ search, write }: Taken): string {
  return `search ${quantile(search, 0.95).toFixed(1)}, write ${quantile(write, 0.95).toFixed(1)} ms`
}
