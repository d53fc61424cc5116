/** Runs read-only statements on connections that act as the reading role and nothing else. */

import pg from 'pg'
import type { Logger } from 'pino'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { createTurns } from '#lib/turns.ts'
import { vectorBytes } from '../copy-format.ts'
import { type SqlResult, type SqlValue, sqlState } from '../port.ts'
import { relationalUnavailable, translateFault, waitedTooLong } from '../sql-faults.ts'
import { fromTextResult, toSqlText } from '../sql-values.ts'
import { createStatementNames, outlivedStates } from '../statement-names.ts'
import { textTypes } from '../text-types.ts'
import type { Mirror, ReadOptions } from './port.ts'
import { createReadSessions } from './read-session.ts'

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

export function openReadPool(options: { url: string; log: Logger }): ReadPool {
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
      if (name === undefined || !outlivedStates.includes(sqlState(error) ?? '')) throw error
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
