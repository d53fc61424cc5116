/** search-pg through the gateway on PostgreSQL compared with the same statement by pg alone, with and without a filter. */

import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { pino } from 'pino'
import { createClient } from '#client/client.ts'
import { openPostgresMirror } from '#engines/relational/mirror/postgres.ts'
import { vectorBytes } from '#engines/relational/statements.ts'
import { createScope, type Scope } from '#lib/resource.ts'
import { loadFilterCompiler } from '#services/vectors/read/search-pg/filter.ts'
import type { Column } from '#services/vectors/read/search-pg/filter-types.ts'
import { serverSettings } from '#services/vectors/read/search-pg/search.ts'
import { indexedStatement } from '#services/vectors/read/search-pg/statement.ts'
import type { SearchTable } from '#services/vectors/read/search-pg/tables.ts'
import { openPostgres } from '../scripts/servers/postgres.ts'
import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import { openForked } from './forked.ts'
import { openCaller } from './load.ts'
import { createPointSource } from './points.ts'
import type { SearchPgCalls } from './search-pg-platform.ts'

const points = 20_000
/** Before the rounds that count: by then both sides run what they will keep running. */
const warmUps = 3
const rounds = 7
const requests = 200
const filters = [
  { what: 'without a filter', filter: undefined },
  { what: 'with a filter that half of the rows pass', filter: "status = 'active'" },
  { what: 'with a filter that 1 of 50 passes', filter: `'group-7' = ANY(tags) AND mind_path LIKE 'bench/%'` },
]
const log = pino({ level: process.env.BENCH_LOG ?? 'error' }, pino.destination(2))

export const searchPgBench: Bench = {
  name: 'search-pg',
  purpose: `p95 of search-pg over ${points.toLocaleString('en')} clustered points on PostgreSQL through the gateway, one client, compared with the same statement by pg alone`,
  async run(report) {
    const scope = createScope(() => {})
    try {
      const url = process.env.DATABASE_URL ?? (await ownServer(scope))
      await fill(url, report)
      const gateway = await openGateway(scope, url)
      const peer = await openPeer(scope, url)
      const rows: BenchRow[] = []
      for (const { what, filter } of filters)
        rows.push(...(await compare(what, filter, gateway, peer, report)))
      return rows
    } finally {
      await scope.close()
    }
  },
}

export async function ownServer(scope: Scope): Promise<string> {
  const server = await openPostgres()
  scope.add('server', { close: async () => server.close() })
  return server.url
}

/** Straight into the mirror's tables; the index is built when all rows are there, which takes a fraction of the time. */
async function fill(url: string, report: (text: string) => void): Promise<void> {
  const mirror = openPostgresMirror({ url, log })
  const generation = await mirror.adoptGeneration(1)
  const { rows } = await mirror.write.query<{ indexdef: string }>(
    `select indexdef from pg_indexes where schemaname = 'vectors' and indexname = 'embeddings_hnsw'`,
  )
  await mirror.write.query('drop index vectors.embeddings_hnsw')
  const source = createPointSource(1)
  for (let from = 0; from < points; from += 500) {
    const operations = Array.from({ length: 500 }, (_, i) => {
      const { id, vector, payload } = source.point(`point-${from + i}`)
      const {
        title,
        status,
        tags,
        mind_path: mindPath,
      } = payload as Record<string, string> & { tags: string[] }
      const row = {
        title: title!,
        status: status!,
        tags,
        mindPath: mindPath!,
        updatedAt: null,
        expiresAt: null,
        payload,
      }
      const embedding = Float32Array.from(vector)
      return { partition: 0, offset: from + i, collection: 'knowledgebase', id, row: { ...row, embedding } }
    })
    await mirror.apply({ generation, epoch: 1 }, operations, [])
  }
  report(`  filled ${points} rows`)
  const builder = new pg.Client({ connectionString: url })
  await builder.connect()
  await builder.query(`set maintenance_work_mem = '512MB'`)
  await builder.query(rows[0]!.indexdef)
  await builder.query('analyze vectors.embeddings')
  await builder.query('analyze vectors.metadata')
  await builder.end()
  await mirror.close()
  report('  the index is built')
}

interface Gateway {
  origin: string
  key: string
}

async function openGateway(scope: Scope, url: string): Promise<Gateway> {
  const home = mkdtempSync(join(tmpdir(), 'fl-bench-'))
  scope.add('home', { close: async () => rmSync(home, { recursive: true, force: true }) })
  const forked = scope.add(
    'gateway',
    openForked<SearchPgCalls>(new URL('./search-pg-platform.ts', import.meta.url), [home, url]),
  )
  const { vectorUrl, agents } = await forked.call('open', null)
  const client = createClient({ vectorUrl, ...agents[0]! })
  const key = await client.apiKey()
  await client.close()
  return { origin: vectorUrl, key }
}

/** How a program with pg alone sends the statement that the gateway sends. */
const ways = {
  /** As it comes: parsed at every call, the vector in the text form that pgvector's own package makes. */
  plain: 'pg alone',
  /** With what the gateway does to spare work: prepared, the vector in binary. */
  prepared: 'pg alone, prepared, the vector in binary',
}
type Way = keyof typeof ways
type Peer = (query: { text: string; bytes: Buffer }, filter: string | undefined, way: Way) => Promise<number>

/** The very statement that the gateway sends, each way in a session of its own with the same settings and role. */
async function openPeer(scope: Scope, url: string): Promise<Peer> {
  const clients = { plain: await openSession(scope, url), prepared: await openSession(scope, url) }
  const compile = await loadFilterCompiler()
  return async (query, filter, way) => {
    const emitted = filter === undefined ? undefined : compile(filter, table.columns)
    const text = indexedStatement({ table, filter: emitted, withPayload: true, withVector: false })
    const values = [...(emitted?.params ?? []), way === 'plain' ? query.text : query.bytes, 10]
    const begun = performance.now()
    const { rows } = await clients[way].query(
      way === 'plain' ? { text, values } : { text, values, name: nameOf(text) },
    )
    if (rows.length !== 10) throw new Error(`pg alone found ${rows.length} rows`)
    return performance.now() - begun
  }
}

async function openSession(scope: Scope, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  scope.add('peer', { close: () => client.end() })
  const settings = { ...serverSettings, plan_cache_mode: 'force_custom_plan', role: 'flotilla_reader' }
  for (const [name, value] of Object.entries(settings)) {
    await client.query('select set_config($1, $2, false)', [name, value])
  }
  return client
}

function nameOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}

const columnsOf = (alias: string, types: Record<string, string>): [string, Column][] =>
  Object.entries(types).map(([name, type]) => [name, { name, type, alias }])

const table: SearchTable = {
  name: 'embeddings',
  vector: 'embedding',
  hasCollection: true,
  hasStoredNames: true,
  expires: true,
  payload: 'joined',
  columns: new Map(columnsOf('m', { status: 'text', tags: '_text', mind_path: 'text' })),
  bytes: 0,
}

const vectors = (() => {
  const source = createPointSource(99)
  return Array.from({ length: requests }, () => source.vector())
})()

/** Each way and the gateway in turn, request by request, so that all meet the same machine; medians over the rounds. */
async function compare(
  what: string,
  filter: string | undefined,
  { origin, key }: Gateway,
  peer: Peer,
  report: (text: string) => void,
): Promise<BenchRow[]> {
  const headers = { authorization: `Bearer ${key}` }
  const given = { table: 'embeddings', limit: 10, metric: 'cosine', filter_sql: filter }
  const bodies = vectors.map((vector) => Buffer.from(JSON.stringify({ ...given, vector })))
  const queries = vectors.map((vector) => ({
    text: JSON.stringify(vector),
    bytes: vectorBytes(Float32Array.from(vector)),
  }))
  const caller = openCaller(origin)
  const found: Record<Way | 'gateway', number[]> = { plain: [], prepared: [], gateway: [] }
  for (let round = 1 - warmUps; round <= rounds; round++) {
    const took: typeof found = { plain: [], prepared: [], gateway: [] }
    for (let i = 0; i < requests; i++) {
      // Other vectors: what the one has just read would be warm for the next.
      const [first, second, third] = [0, 1, 2].map((n) => (i + Math.floor((n * requests) / 3)) % requests)
      took.plain.push(await peer(queries[first!]!, filter, 'plain'))
      took.prepared.push(await peer(queries[second!]!, filter, 'prepared'))
      took.gateway.push(await caller.post('/v1/vectors/search-pg', bodies[third!]!, headers))
    }
    report(
      `  ${what}, round ${round}: ${shown('gateway', took)}; ${shown('plain', took)}; ${shown('prepared', took)}`,
    )
    if (round < 1) continue
    for (const one of ['plain', 'prepared', 'gateway'] as const) found[one].push(quantile(took[one], 0.95))
  }
  await caller.close()
  return (['plain', 'prepared'] as const).map((way) => ({
    what: `p95 ${what}`,
    unit: 'ms',
    measured: median(found.gateway),
    peer: { what: ways[way], value: median(found[way]) },
    ratio: median(found.gateway.map((value, round) => value / found[way][round]!)),
    ...(way === 'plain' ? { bar: { max: 1.3 } } : {}),
  }))
}

function shown<K extends string>(which: K, took: Record<K, number[]>): string {
  const at = [0.05, 0.5, 0.95].map((share) => `p${share * 100} ${quantile(took[which], share).toFixed(2)}`)
  return `${which} ${at.join(', ')}`
}
