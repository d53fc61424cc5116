/** The relational engine on a PostgreSQL server: a bounded pool of connections. */

import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import type { Logger } from 'pino'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { createListener } from './listening.ts'
import type { CopyColumn, CopyValue, Relational, SqlValue } from './port.ts'
import { isOutlived, relationalUnavailable, translateFault } from './sql-faults.ts'
import {
  copyChunks,
  copyHeader,
  copyStatement,
  copyTrailer,
  createStatementNames,
  createTransactionGuard,
  fromTextResult,
  type OpenTransaction,
  type StatementNames,
  type TextResult,
  toSqlText,
} from './statements.ts'

interface PostgresOptions {
  /** postgres://user:password@host:port/database; may contain a secret, so it is never logged. */
  url: string
  log: Logger
  /** Connections at most. Default 10. */
  poolMax?: number
  /** The server ends statements after this time. Default 30,000. */
  statementTimeoutMs?: number
}

/** Callers that wait for a connection at once. */
const waitingMax = 1_000
const connectTimeoutMs = deadlines.engine.postgresConnectMs
/** Lifetime of a connection; its prepared statements end with it. */
const lifetimeS = 3_600
/** Who asks now and then finds a connection: a new one costs the server a process. */
export const idleConnectionMs = 60_000
/** How much later than the server the client gives up on a statement. */
const graceMs = 1_000
const idleTransactionMs = 30_000

/** Opens the pool. The server need not be up yet: calls fail with `relational_engine_unavailable` until it is. */
export async function openPostgres(options: PostgresOptions): Promise<Relational> {
  const config = connectionConfig(options)
  const pool = new pg.Pool({
    ...config,
    max: options.poolMax ?? 10,
    maxLifetimeSeconds: lifetimeS,
    idleTimeoutMillis: idleConnectionMs,
  })
  // Without this, a connection that breaks while it is idle would end the process.
  const brokeIdle = (error: Error) =>
    options.log.warn({ reason: describeError(error) }, 'relational.connection-lost')
  pool.on('error', brokeIdle)
  pool.on('connect', (client) => client.on('error', () => {}))
  const listener = createListener(() => new pg.Client(config), options.log)
  const guard = createTransactionGuard()
  const names = createStatementNames()
  let closing: Promise<void> | undefined

  async function connect(): Promise<pg.PoolClient> {
    if (closing) throw new AppError('shutting_down', 'The relational engine is closed.')
    if (pool.waitingCount >= waitingMax) {
      throw new AppError('overloaded', 'Too many statements wait for a connection.', { retryAfter: 1 })
    }
    try {
      return await pool.connect()
    } catch (error) {
      throw relationalUnavailable(error)
    }
  }

  /** Runs `work` on a connection of its own; one that failed is thrown away. */
  async function onConnection<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    guard.assertOutside()
    const client = await connect()
    try {
      const value = await work(client)
      client.release()
      return value
    } catch (error) {
      const fault = translateFault(error)
      client.release(fault instanceof AppError)
      throw fault
    }
  }

  return {
    driver: 'postgres',
    query: <Row>(text: string, params?: SqlValue[]) =>
      onConnection(async (client) => {
        try {
          return await run<Row>(client, names, text, params)
        } catch (error) {
          if (!isOutlived(error)) throw error
          return await run<Row>(client, names, text, params)
        }
      }),
    transaction: (work) => guard.run(async () => openTransaction(await connect(), names, options.log), work),
    listen: listener.listen,
    async ping(timeoutMs = deadlines.engine.pingMs) {
      await withTimeout(
        onConnection((client) => run(client, names, 'select 1')),
        timeoutMs,
        () => relationalUnavailable(),
      )
    },
    close() {
      closing ??= Promise.all([listener.close(), pool.end()]).then(() => {})
      return closing
    },
  }
}

/** The types of pg describe a parser for each of its own result types; this one leaves every text as it is. */
export const textTypes = { getTypeParser: () => (text: string) => text } as unknown as pg.CustomTypesConfig

function connectionConfig(options: PostgresOptions) {
  const statementTimeoutMs = options.statementTimeoutMs ?? deadlines.engine.postgresStatementMs
  return {
    connectionString: options.url,
    application_name: 'flotilla',
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + graceMs,
    idle_in_transaction_session_timeout: idleTransactionMs,
    keepAlive: true,
    types: textTypes,
  }
}

/**
 * Without parameters the text may hold several statements; the last one's result counts. With them a text that comes again
 * is prepared. Where `isOutlived` of the fault, it will be prepared once more.
 */
async function run<Row>(client: pg.ClientBase, names: StatementNames, text: string, params: SqlValue[] = []) {
  const name = params.length === 0 ? undefined : names.of(text)
  try {
    const result: pg.QueryArrayResult | pg.QueryArrayResult[] = await client.query({
      text,
      rowMode: 'array',
      ...(params.length === 0 ? {} : { values: params.map(toSqlText) }),
      ...(name === undefined ? {} : { name }),
    })
    return fromTextResult<Row>(textResult(Array.isArray(result) ? result.at(-1)! : result))
  } catch (error) {
    if (name !== undefined && isOutlived(error)) names.renew(text)
    throw error
  }
}

function textResult(result: pg.QueryArrayResult): TextResult {
  return {
    fields: result.fields.map((field) => ({ name: field.name, type: field.dataTypeID })),
    rows: result.rows as (string | null)[][],
    rowCount: result.rowCount ?? 0,
    command: result.command,
  }
}

async function openTransaction(
  client: pg.PoolClient,
  names: StatementNames,
  log: Logger,
): Promise<OpenTransaction> {
  let broken = false
  async function guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const fault = translateFault(error)
      if (fault instanceof AppError) broken = true
      throw fault
    }
  }
  async function end(statement: 'commit' | 'rollback'): Promise<string> {
    const { command } = await guarded(() => client.query(statement))
    client.release()
    return command
  }
  try {
    await guarded(() => client.query('begin'))
  } catch (error) {
    client.release(true)
    throw error
  }
  let ended = false
  return {
    query: <Row>(text: string, params?: SqlValue[]) => guarded(() => run<Row>(client, names, text, params)),
    async copy(table, columns, rows) {
      const statement = copyStatement(table, columns, 'stdin')
      const result = await guarded(() => copyIn(client, statement, columns, rows))
      if ('fault' in result) throw result.fault
      return result.rows
    },
    async commit() {
      const command = await end('commit')
      ended = true
      return command
    },
    async rollback() {
      if (ended) return
      ended = true
      if (broken) return client.release(true)
      await end('rollback').catch((error) => {
        log.warn({ reason: describeError(error) }, 'relational.rollback-failed')
        client.release(true)
      })
    },
  }
}

const chunkBytes = 256 * 1024

/**
 * `fault` is what the source of the rows threw: the server then keeps none, and the connection can be used as before.
 */
type CopyResult = { rows: number } | { fault: unknown }

/** Resolves once the server has taken all rows; rejects with the server's or the connection's fault. */
async function copyIn(
  client: pg.ClientBase,
  statement: string,
  columns: CopyColumn[],
  rows: Iterable<CopyValue[]>,
): Promise<CopyResult> {
  let source: { fault: unknown } | undefined
  function* chunks(): Generator<Buffer> {
    yield copyHeader
    try {
      for (const { parts } of copyChunks(columns, rows, chunkBytes)) yield Buffer.concat(parts)
    } catch (fault) {
      source = { fault }
      // The server is given this text as the reason why the copy ends.
      throw new Error('the rows could not be encoded')
    }
    yield copyTrailer
  }
  const copying = client.query(copyFrom(statement))
  try {
    await pipeline(chunks, copying)
  } catch (error) {
    if (source) return source
    throw error
  }
  return { rows: copying.rowCount }
}
