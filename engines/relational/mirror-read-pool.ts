/** Read-only statements in, rows out: connections of a PostgreSQL server that act as the reading role and nothing else. */

import pg from 'pg'
import type { Logger } from 'pino'
import { withTimeout } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Mirror, ReadOptions } from './mirror-port.ts'
import { readerRole } from './mirror-tables.ts'
import { relationalUnavailable, translateFault } from './sql-faults.ts'
import { fromTextResult, toSqlText } from './sql-values.ts'

const connectionsMax = 10
/** Reads that wait for a connection at once. */
const waitingMax = 1_000
const connectTimeoutMs = 3_000
/** How much later than the server the client gives up on a statement. */
const graceMs = 1_000

export interface ReadPool {
  read: Mirror['read']
  close(): Promise<void>
}

export function openReadPool({ url, log }: { url: string; log: Logger }): ReadPool {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: 'flotilla-reader',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    max: connectionsMax,
    types: { getTypeParser: () => (text: string) => text } as unknown as pg.CustomTypesConfig,
  })
  pool.on('error', (error) => log.warn({ reason: describeError(error) }, 'mirror.connection-lost'))
  pool.on('connect', (client) => client.on('error', () => {}))
  /** The settings that a connection has; one that is not here is fresh and has every right still. */
  const settled = new WeakMap<pg.PoolClient, string>()

  async function connect(): Promise<pg.PoolClient> {
    if (pool.waitingCount >= waitingMax) {
      throw new AppError('overloaded', 'Too many reads wait for a connection.', { retryAfter: 1 })
    }
    try {
      return await pool.connect()
    } catch (error) {
      throw relationalUnavailable(error)
    }
  }

  async function settle(client: pg.PoolClient, options: ReadOptions): Promise<void> {
    const settings = sessionOf(options)
    const wanted = JSON.stringify(settings)
    if (settled.get(client) === wanted) return
    settled.delete(client)
    const names = Object.keys(settings)
    // What an earlier read set beside these goes; the role comes last, because it may set less.
    await client.query('reset all')
    await client.query({
      text: `select ${names.map((_, i) => `set_config($${2 * i + 1}, $${2 * i + 2}, false)`).join(', ')}`,
      values: names.flatMap((name) => [name, settings[name]]),
      query_timeout: connectTimeoutMs,
    } as pg.QueryConfig)
    settled.set(client, wanted)
  }

  return {
    async read(text, params, options) {
      const client = await connect()
      try {
        await settle(client, options)
        const query = client.query({
          text,
          values: params.map(toSqlText),
          rowMode: 'array',
          // One statement, whatever the text says: the simple protocol would take several.
          queryMode: 'extended',
          query_timeout: options.timeoutMs + graceMs,
        } as unknown as pg.QueryArrayConfig)
        const result = await query
        client.release()
        return fromTextResult({
          fields: result.fields.map((field) => ({ name: field.name, type: field.dataTypeID })),
          rows: result.rows as (string | null)[][],
          rowCount: result.rowCount ?? 0,
          command: result.command,
        })
      } catch (error) {
        const fault = translateFault(error)
        // A connection that is not as it should be is never used again.
        client.release(fault instanceof AppError || !settled.has(client))
        throw fault
      }
    },
    async close() {
      await withTimeout(pool.end(), connectTimeoutMs, () => relationalUnavailable())
    },
  }
}

function sessionOf({ timeoutMs, settings }: ReadOptions): Record<string, string> {
  return {
    ...settings,
    statement_timeout: String(timeoutMs),
    idle_in_transaction_session_timeout: '5000',
    default_transaction_read_only: 'on',
    role: readerRole,
  }
}
