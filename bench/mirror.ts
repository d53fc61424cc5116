/** The relational-writer on PostgreSQL: draining a filled log, compared with a bare COPY of the same rows into the same tables. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { pino } from 'pino'
import { createTables, indexStatement, type Tables } from '#engines/relational/mirror/tables.ts'
import type { CopyColumn, CopyValue, Relational } from '#engines/relational/port.ts'
import { openPostgres } from '#engines/relational/postgres.ts'
import { createScope } from '#lib/resource.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'
import { relationalWriter } from '#services/vectors/relational/service.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { openPostgres as startPostgres } from '../scripts/servers/postgres.ts'
import { type Bench, median } from './bench.ts'
import { createPointSource } from './points.ts'

const points = 2_000
const rounds = 3
const collection = 'knowledgebase'
const bare: Tables = { embeddings: 'bare.embeddings', metadata: 'bare.metadata' }
const log = pino({ level: process.env.BENCH_LOG ?? 'error' }, pino.destination(2))

export const mirrorBench: Bench = {
  name: 'mirror',
  purpose: `rows a second of the relational-writer on PostgreSQL, draining ${points.toLocaleString('en')} points from a filled log, compared with bare COPY (one connection, one transaction) into tables with the same indexes`,
  async run(report) {
    const scope = createScope(() => {})
    try {
      const server = process.env.DATABASE_URL
        ? undefined
        : scope.add('server', await closable(startPostgres()))
      const url = process.env.DATABASE_URL ?? server!.url
      const source = createPointSource(11)
      const all = Array.from({ length: points }, (_, i) => source.point(`point-${i}`))
      const rates: { writer: number[]; copy: number[] } = { writer: [], copy: [] }
      for (let round = 0; round <= rounds; round++) {
        const copy = await inDatabase(url, (own) => copyRate(own, all))
        const writer = await inDatabase(url, (own) => writerRate(own, all))
        report(`  round ${round}: writer ${Math.round(writer)}, bare COPY ${Math.round(copy)} rows/s`)
        if (round === 0) continue // The first round warms both up.
        rates.writer.push(writer)
        rates.copy.push(copy)
      }
      return [
        {
          what: `rows into both tables with their indexes, ${rounds} rounds`,
          unit: 'rows/s',
          measured: median(rates.writer),
          peer: { what: 'bare COPY', value: median(rates.copy) },
          ratio: median(rates.writer.map((rate, round) => rate / rates.copy[round]!)),
          bar: { min: 0.8 },
        },
      ]
    } finally {
      await scope.close()
    }
  },
}

type Point = ReturnType<ReturnType<typeof createPointSource>['point']>

async function closable(opening: Promise<{ url: string; close(): void }>) {
  const server = await opening
  return { url: server.url, close: async () => server.close() }
}

/** Runs `work` with the URL of a database of its own, which is dropped afterwards. */
async function inDatabase<T>(url: string, work: (url: string) => Promise<T>): Promise<T> {
  const name = `flotilla_bench_${process.pid}`
  const own = new URL(url)
  own.pathname = `/${name}`
  await onServer(url, `create database ${name}`)
  try {
    return await work(own.href)
  } finally {
    await onServer(url, `drop database ${name} with (force)`)
  }
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

const embeddingColumns: CopyColumn[] = [
  { name: 'collection', type: 'text' },
  { name: 'id', type: 'text' },
  { name: 'embedding', type: 'vector' },
]
const metadataColumns: CopyColumn[] = [
  { name: 'collection', type: 'text' },
  { name: 'id', type: 'text' },
  { name: 'title', type: 'text' },
  { name: 'status', type: 'text' },
  { name: 'tags', type: 'text[]' },
  { name: 'mind_path', type: 'text' },
  { name: 'updated_at', type: 'timestamptz' },
  { name: 'payload', type: 'jsonb' },
]

/** Values are ready before the clock starts: the server and the way to it are measured. */
async function copyRate(url: string, all: Point[]): Promise<number> {
  const server = await openPostgres({ url, log, statementTimeoutMs: 600_000 })
  try {
    await layBareTables(server)
    const embeddings: CopyValue[][] = all.map(({ id, vector }) => [collection, id, Float32Array.from(vector)])
    const metadata: CopyValue[][] = all.map(({ id, payload }) => {
      const { title, status, tags, mind_path, updated_at } = payload as Record<string, string & string[]>
      return [collection, id, title!, status!, tags!, mind_path!, new Date(updated_at!), payload]
    })
    const begun = performance.now()
    await server.transaction(async (tx) => {
      await tx.copy(bare.embeddings, embeddingColumns, embeddings)
      await tx.copy(bare.metadata, metadataColumns, metadata)
    })
    return all.length / ((performance.now() - begun) / 1_000)
  } finally {
    await server.close()
  }
}

async function layBareTables(server: Relational): Promise<void> {
  await server.query('create extension if not exists vector')
  await server.query('drop schema if exists bare cascade; create schema bare')
  await server.query(
    `do $$ begin create role flotilla_reader; exception when duplicate_object then null; end $$`,
  )
  await createTables(server, bare)
  await server.query(indexStatement(bare, 'at once'))
}

/** From the writer's start to its last row, the taking up of its partitions included. */
async function writerRate(url: string, all: Point[]): Promise<number> {
  const home = mkdtempSync(join(tmpdir(), 'fl-bench-'))
  const platform = await openPlatform({
    migrations: migrationFolders,
    env: { FLOTILLA_HOME: home, DATABASE_URL: url },
    needs: ['mirror'],
    producerName: 'bench',
    log,
    lock: true,
  })
  try {
    const { mirror } = platform.engines
    await mirror.prepare()
    await fill(platform, all)
    const begun = performance.now()
    const writer = await relationalWriter.start(platform)
    for (;;) {
      const { rows } = await mirror.write.query<{ done: number }>(
        'select coalesce(sum(next), 0)::int8 as done from vectors_build.positions',
      )
      if (rows[0]!.done >= all.length) break
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const rate = all.length / ((performance.now() - begun) / 1_000)
    await writer.close()
    return rate
  } finally {
    await platform.close()
    rmSync(home, { recursive: true, force: true })
  }
}

async function fill({ publisher }: Platform, all: Point[]): Promise<void> {
  for (let from = 0; from < all.length; from += 500) {
    await publisher.publish(
      vectorsCommands,
      all.slice(from, from + 500).map(({ id, vector, payload }) => ({
        key: { collection, id },
        value: {
          vector: Buffer.from(Float32Array.from(vector).buffer),
          payload: JSON.stringify(payload),
          embedder: null,
          making: null,
          expires_at: null,
        },
      })),
    )
  }
}
