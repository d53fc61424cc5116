/**
 * The mirror on a PostgreSQL server: a pool for writing, a pool for reading, whose connections act as the reading role and nothing
 * else, and a connection for work that takes long.
 */

import pg from 'pg'
import type { Logger } from 'pino'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { createTurns } from '#lib/turns.ts'
import type { Relational, SqlResult, SqlValue } from '../port.ts'
import { idleConnectionMs, openPostgres, textTypes } from '../postgres.ts'
import { isOutlived, relationalUnavailable, translateFault, waitedTooLong } from '../sql-faults.ts'
import { createStatementNames, fromTextResult, toSqlText, vectorBytes } from '../statements.ts'
import { createMirror } from './mirror.ts'
import type { Mirror, ReadOptions } from './port.ts'
import { buildingTables, indexName, indexStatement, readerRole } from './tables.ts'

const writeConnections = 4
const indexTimeoutMs = 24 * 3_600_000

/** The server need not be up yet: calls fail with `relational_engine_unavailable` until it is. */
export function openPostgresMirror({ url, log }: { url: string; log: Logger }): Mirror {
  const readPool = openReadPool({ url, log })
  let writePool: Relational | undefined
  return createMirror({
    driver: 'postgres',
    log,
    async open() {
      writePool ??= await openPostgres({
        url,
        log,
        poolMax: writeConnections,
        statementTimeoutMs: deadlines.engine.mirrorWriteMs,
      })
      return {
        write: writePool,
        read: readPool.read,
        finishGeneration: (generation) => finishGeneration({ url, log }, generation),
      }
    },
    async close() {
      await Promise.all([readPool.close(), writePool?.close()])
    },
  })
}

/**
 * What pgvector's README advises for loading many rows, for this session alone: memory that holds the graph, which is a little
 * smaller than its table, and more workers. The size of the server bounds both: its shared_buffers, a quarter of its memory where
 * somebody has set them, and half of its parallel workers. PostgreSQL itself starts no worker for which less than 32 MB are left.
 */
const bulkSettings = `
  select set_config('maintenance_work_mem', (greatest(
      pg_size_bytes(current_setting('maintenance_work_mem')),
      least(pg_relation_size($1::regclass) + 16777216, pg_size_bytes(current_setting('shared_buffers')), 8589934592)
    ) / 1024) || 'kB', false) as memory,
    set_config('max_parallel_maintenance_workers', greatest(
      current_setting('max_parallel_maintenance_workers')::int,
      least(7, current_setting('max_parallel_workers')::int / 2)
    )::text, false) as workers`

/**
 * Builds the index while rows keep coming. One that an earlier try left half built is dropped first, and built with the server's own
 * settings: a container may have too little shared memory for more.
 */
async function finishGeneration(options: { url: string; log: Logger }, generation: number): Promise<void> {
  const tables = buildingTables(generation)
  const server = await openPostgres({ ...options, poolMax: 1, statementTimeoutMs: indexTimeoutMs })
  try {
    const name = `vectors_build.${indexName(tables)}`
    const { rows } = await server.query<{ valid: boolean; building: boolean }>(
      `select index.indisvalid as valid,
         exists (select from pg_stat_progress_create_index as run where run.index_relid = index.indexrelid) as building
       from pg_index as index where index.indexrelid = to_regclass($1)`,
      [name],
    )
    if (rows[0]?.valid) return
    if (rows[0]?.building) throw new Error('the index is being built by a connection that has lost its owner')
    if (rows[0]) await server.query(`drop index ${name}`)
    const settings = rows[0] ? {} : (await server.query(bulkSettings, [tables.embeddings])).rows[0]
    const startedAt = Date.now()
    await server.query(indexStatement(tables, 'concurrently'))
    options.log.info({ generation, took_ms: Date.now() - startedAt, ...settings }, 'mirror.index-built')
  } finally {
    await server.close().catch((error: unknown) => {
      options.log.warn({ reason: describeError(error) }, 'mirror.close-failed')
    })
  }
}

/** One caller leaves some connections to the others. */
const quick = { connections: 8, ofCaller: 6 }
/** Statements that may be slow: each keeps a core of the server busy. */
const slow = { connections: 2, ofCaller: 1 }
/** Reads that wait for a connection at once. */
const waitingMax = 1_000
const connectTimeoutMs = deadlines.engine.postgresConnectMs
/** How much later than the server the client gives up on a statement. */
const graceMs = 1_000

interface ReadPool {
  read: Mirror['read']
  close(): Promise<void>
}

interface Statement {
  text: string
  params: SqlValue[]
  /** It is prepared under this name; undefined: it is not. */
  name: string | undefined
}

function openReadPool(options: { url: string; log: Logger }): ReadPool {
  const lanes = { quick: openLane(options, quick), slow: openLane(options, slow) }
  return {
    read: (text, params, read) => lanes[read.slow ? 'slow' : 'quick'].read(text, params, read),
    async close() {
      await Promise.all([lanes.quick.close(), lanes.slow.close()])
    },
  }
}

function openLane(
  { url, log }: { url: string; log: Logger },
  { connections, ofCaller }: { connections: number; ofCaller: number },
): ReadPool {
  const pool = openPool(url, log, connections)
  const turns = createTurns({ atOnce: connections, perCaller: ofCaller, waitingMax })
  const sessions = createReadSessions()
  const names = createStatementNames()

  async function connect(): Promise<pg.PoolClient> {
    try {
      return await pool.connect()
    } catch (error) {
      throw relationalUnavailable(error)
    }
  }

  async function run<Row>(statement: Statement, options: ReadOptions): Promise<SqlResult<Row>> {
    const client = await connect()
    const { name } = statement
    try {
      await sessions.settle(client, options)
      const result = await query<Row>(client, statement, options.timeoutMs + graceMs)
      client.release(name !== undefined && !sessions.notePrepared(client, name))
      return result
    } catch (error) {
      const fault = translateFault(error)
      // A connection with the wrong settings is never used again.
      client.release(fault instanceof AppError || !sessions.isSettled(client))
      throw fault
    }
  }

  async function attempt<Row>(text: string, params: SqlValue[], options: ReadOptions) {
    const name = names.of(text)
    try {
      return await run<Row>({ text, params, name }, options)
    } catch (error) {
      if (name === undefined || !isOutlived(error)) throw error
      names.renew(text)
      return run<Row>({ text, params, name: undefined }, options)
    }
  }

  return {
    read<Row>(text: string, params: SqlValue[], options: ReadOptions) {
      const { caller = '', timeoutMs, waitMs = timeoutMs } = options
      const endAt = performance.now() + waitMs
      return turns.take(caller, waitMs, waitedTooLong, () => {
        // What may be slow has waited on its own time.
        const left = options.slow ? Math.max(1, Math.ceil(endAt - performance.now())) : timeoutMs
        return attempt<Row>(text, params, { ...options, timeoutMs: left })
      })
    },
    async close() {
      await withTimeout(pool.end(), connectTimeoutMs, () => relationalUnavailable())
    },
  }
}

function openPool(url: string, log: Logger, connectionsMax: number): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: 'flotilla-reader',
    connectionTimeoutMillis: connectTimeoutMs,
    idleTimeoutMillis: idleConnectionMs,
    keepAlive: true,
    max: connectionsMax,
    types: textTypes,
  })
  pool.on('error', (error) => log.warn({ reason: describeError(error) }, 'mirror.connection-lost'))
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

async function query<Row>(client: pg.ClientBase, { text, params, name }: Statement, timeoutMs: number) {
  // pg has these two options of a query; its types lack them.
  const config: pg.QueryArrayConfig & { queryMode: 'extended'; query_timeout: number } = {
    text,
    values: params.map(parameterOf),
    rowMode: 'array',
    // One statement, whatever the text says: the simple protocol would take several.
    queryMode: 'extended',
    query_timeout: timeoutMs,
    ...(name === undefined ? {} : { name }),
  }
  const result = await client.query(config)
  return fromTextResult<Row>({
    fields: result.fields.map((field) => ({ name: field.name, type: field.dataTypeID })),
    rows: result.rows as (string | null)[][],
    rowCount: result.rowCount ?? 0,
    command: result.command,
  })
}

/** pg sends a Buffer in binary: the text of a vector costs both sides a hundred times as much. */
function parameterOf(value: SqlValue): string | Buffer | null {
  return value instanceof Float32Array ? vectorBytes(value) : toSqlText(value)
}

const settleTimeoutMs = 3_000
/** Statements that a connection has prepared: with more it is replaced by a fresh one. */
const preparedMax = 200

function createReadSessions() {
  const settled = new WeakMap<pg.ClientBase, string>()
  const prepared = new WeakMap<pg.ClientBase, Set<string>>()
  return {
    /** Brings the connection's settings to those of the read; nothing to do when its last read had the same. */
    async settle(client: pg.ClientBase, options: ReadOptions): Promise<void> {
      const settings = settingsOf(options)
      const wanted = JSON.stringify(settings)
      if (settled.get(client) === wanted) return
      settled.delete(client)
      const names = Object.keys(settings)
      // Other settings of an earlier read are reset; the role comes last, because it may set less.
      await client.query('reset all')
      await client.query({
        text: `select ${names.map((_, i) => `set_config($${2 * i + 1}, $${2 * i + 2}, false)`).join(', ')}`,
        values: names.flatMap((name) => [name, settings[name]]),
        query_timeout: settleTimeoutMs,
      } as pg.QueryConfig)
      settled.set(client, wanted)
    },
    /** False while a connection may have other settings, or every right: then it is never used again. */
    isSettled: (client: pg.ClientBase) => settled.has(client),
    /** Notes what the connection has prepared; false when that is enough for it. */
    notePrepared(client: pg.ClientBase, name: string): boolean {
      const names = prepared.get(client) ?? new Set()
      prepared.set(client, names.add(name))
      return names.size < preparedMax
    },
  }
}

function settingsOf({ timeoutMs, settings }: ReadOptions): Record<string, string> {
  return {
    ...settings,
    statement_timeout: String(timeoutMs),
    idle_in_transaction_session_timeout: '5000',
    default_transaction_read_only: 'on',
    // A filter's literals decide how its rows are best found, also in a prepared statement.
    plan_cache_mode: 'force_custom_plan',
    role: readerRole,
  }
}
