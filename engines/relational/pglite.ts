/** The embedded relational engine: PGlite with pgvector in a thread of its own. */

import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { describeError } from '#lib/errors.ts'
import { copyChunks, copyHeader, copyStatement, copyTrailer } from './copy-format.ts'
import { createSupervisor, type Supervisor, type Thread } from './pglite-supervisor.ts'
import type { CopyColumn, CopyValue, Relational, SqlResult, SqlValue } from './port.ts'
import { relationalUnavailable, SqlFault } from './sql-faults.ts'
import { fromTextResult, type TextResult, toSqlText } from './sql-values.ts'
import { createTransactionGuard, type OpenTransaction } from './transaction.ts'

interface PgliteOptions {
  /** Holds the cluster; owned by this process alone (two would destroy each other's rows without an error). */
  directory: string
  log: Logger
  /** Memory for pages of tables, taken at once. Default 16. */
  sharedBuffersMb?: number
  /** A caller waits this long at most, its turn included; a transaction may be open as long. Default 30,000. */
  statementTimeoutMs?: number
  /** Other threads go first where the cores are busy. Default false. */
  stepsBack?: boolean
}

export interface Pglite extends Relational {
  /**
   * One statement in a read-only transaction that `begin` opens. Past `timeoutMs` its caller gets SQLSTATE 57014; the
   * engine cannot be interrupted, so a statement that goes on for much longer costs the thread, which is then started
   * again.
   */
  read<Row>(begin: string, text: string, params: SqlValue[], timeoutMs: number): Promise<ReadResult<Row>>
}

interface ReadResult<Row> extends SqlResult<Row> {
  /** What the statement took of the processor. */
  busyMs: number
}

/** How long a read may go on after its time. */
const overtimeMs = 10_000
const copyChunkBytes = 8 * 1024 * 1024
const startTimeoutMs = deadlines.embedded.databaseOpenMs

/**
 * Opens (and at first makes) the cluster. It never syncs to disk: a power cut may cost the last moments; a killed
 * process does not. Throws AppError `relational_engine_unavailable` when it cannot be opened.
 */
export async function openPglite(options: PgliteOptions): Promise<Pglite> {
  const timeoutMs = options.statementTimeoutMs ?? deadlines.engine.postgresStatementMs
  mkdirSync(dirname(options.directory), { recursive: true, mode: 0o700 })
  const { directory, sharedBuffersMb = 16, stepsBack = false, log } = options
  const data = { directory, sharedBuffersMb, transactionMsMax: timeoutMs, stepsBack }
  const supervisor = createSupervisor(data, log)
  const calls: Calls = { supervisor, timeoutMs, log }
  const guard = createTransactionGuard()
  try {
    await bounded(calls, (thread) => thread.call.started(), startTimeoutMs)
  } catch (error) {
    await supervisor.close()
    throw error
  }
  return {
    driver: 'embedded',
    async query<Row>(text: string, params?: SqlValue[]) {
      guard.assertOutside()
      const values = params?.map(toSqlText)
      const deadline = Date.now() + timeoutMs
      return fromTextResult<Row>(await bounded(calls, (thread) => thread.call.query(text, values, deadline)))
    },
    async read<Row>(begin: string, text: string, params: SqlValue[], readTimeoutMs: number) {
      guard.assertOutside()
      const result = await read(calls, { begin, text, params, timeoutMs: readTimeoutMs })
      return { ...fromTextResult<Row>(result), busyMs: result.busyMs }
    },
    transaction: (work) => guard.run(() => openTransaction(calls), work),
    copy(table, columns, rows) {
      guard.assertOutside()
      return copy(calls, table, columns, rows)
    },
    listen: supervisor.listen,
    async ping(pingTimeoutMs = deadlines.engine.pingMs) {
      guard.assertOutside()
      const deadline = Date.now() + pingTimeoutMs
      await bounded(calls, (thread) => thread.call.query('select 1', undefined, deadline), pingTimeoutMs)
    },
    close: supervisor.close,
  }
}

interface Calls {
  supervisor: Supervisor
  timeoutMs: number
  log: Logger
}

async function bounded<T>(
  calls: Calls,
  call: (thread: Thread) => Promise<T>,
  ms = calls.timeoutMs,
): Promise<T> {
  return withTimeout(call(calls.supervisor.get()), ms, () => relationalUnavailable())
}

async function read(
  calls: Calls,
  query: { begin: string; text: string; params: SqlValue[]; timeoutMs: number },
): Promise<TextResult & { busyMs: number }> {
  const { begin, text, params, timeoutMs } = query
  const thread = calls.supervisor.get()
  const running = thread.call.read(begin, text, params.map(toSqlText), Date.now() + timeoutMs)
  return withTimeout(running, timeoutMs, () => {
    const overtime = setTimeout(() => {
      calls.log.error({ timeoutMs }, 'relational.read-abandoned')
      void calls.supervisor.replace(thread)
    }, overtimeMs)
    const ended = () => clearTimeout(overtime)
    running.then(ended, ended)
    return new SqlFault('57014', 'the statement took too long')
  })
}

async function openTransaction(calls: Calls): Promise<OpenTransaction> {
  const thread = calls.supervisor.get()
  const begun = thread.call.begin(Date.now() + calls.timeoutMs)
  const id = await bounded(calls, () => begun).catch((error: unknown) => {
    // It may begin just when its caller gives up, and would then hold up all others.
    begun.then((late) => thread.call.end(late, 'rollback')).catch(() => {})
    throw error
  })
  return {
    async query<Row>(text: string, params?: SqlValue[]) {
      const values = params?.map(toSqlText)
      return fromTextResult<Row>(await bounded(calls, () => thread.call.within(id, text, values)))
    },
    commit: () => bounded(calls, () => thread.call.end(id, 'commit')),
    async rollback() {
      await bounded(calls, () => thread.call.end(id, 'rollback')).catch((error) => {
        calls.log.warn({ reason: describeError(error) }, 'relational.rollback-failed')
      })
    },
    /** One COPY for each chunk. */
    async copy(table, columns, rows) {
      const statement = copyStatement(table, columns, `'/dev/blob'`)
      let total = 0
      for (const chunk of copyChunks(columns, rows, copyChunkBytes)) {
        const data = completeCopy(chunk.parts)
        const sent = () => thread.send('copy', [id, statement, data], [data.buffer as ArrayBuffer])
        await bounded(calls, sent)
        total += chunk.rows
      }
      return total
    },
  }
}

/** All chunks in one transaction. */
async function copy(
  calls: Calls,
  table: string,
  columns: CopyColumn[],
  rows: Iterable<CopyValue[]>,
): Promise<number> {
  const transaction = await openTransaction(calls)
  try {
    const total = await transaction.copy(table, columns, rows)
    await transaction.commit()
    return total
  } catch (error) {
    await transaction.rollback()
    throw error
  }
}

/** Header, body and trailer in a buffer of its own, which can then be moved to the thread. */
function completeCopy(body: Buffer[]): Buffer {
  const parts = [copyHeader, ...body, copyTrailer]
  const data = Buffer.from(new ArrayBuffer(parts.reduce((sum, part) => sum + part.length, 0)))
  let at = 0
  for (const part of parts) at += part.copy(data, at)
  return data
}
