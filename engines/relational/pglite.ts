/**
 * The embedded relational engine: PGlite with pgvector in a thread of its own, which is started at once, and again with its
 * listeners when it died.
 */

import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'
import { createChannels } from './listening.ts'
import type { PgliteThread, PgliteThreadData } from './pglite-thread.ts'
import type { Relational, SqlResult, SqlValue } from './port.ts'
import { relationalUnavailable, SqlFault } from './sql-faults.ts'
import {
  copyChunks,
  copyHeader,
  copyStatement,
  copyTrailer,
  createTransactionGuard,
  fromTextResult,
  type OpenTransaction,
  type TextResult,
  toSqlText,
} from './statements.ts'

interface PgliteOptions {
  /** Holds the cluster; owned by this process alone (two would destroy each other's rows without an error). */
  directory: string
  log: Logger
  /** A caller waits this long at most, its turn included; a transaction may be open as long. Default 30,000. */
  statementTimeoutMs?: number
  /** Other threads go first where the cores are busy. Default false. */
  stepsBack?: boolean
}

export interface Pglite extends Relational {
  /**
   * One statement in a read-only transaction that `begin` opens. Past `timeoutMs` its caller gets SQLSTATE 57014; the
   * engine cannot be interrupted, so a statement that goes on for much longer costs the thread, which is then started
   * again. `busyMs` is what it took of the processor.
   */
  read<Row>(
    begin: string,
    text: string,
    params: SqlValue[],
    timeoutMs: number,
  ): Promise<SqlResult<Row> & { busyMs: number }>
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
  const { directory, stepsBack = false, log } = options
  const supervisor = createSupervisor({ directory, transactionMsMax: timeoutMs, stepsBack }, log)
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

/** Header, body and trailer in a buffer of its own, which can then be moved to the thread. */
function completeCopy(body: Buffer[]): Buffer {
  const parts = [copyHeader, ...body, copyTrailer]
  const data = Buffer.from(new ArrayBuffer(parts.reduce((sum, part) => sum + part.length, 0)))
  let at = 0
  for (const part of parts) at += part.copy(data, at)
  return data
}

type Thread = WorkerClient<PgliteThread>

/** Statements that wait or run at once. */
const callsMax = 1_000
const closeTimeoutMs = deadlines.embedded.closeMs
/** A thread that died is not started again more often than this. */
const restartMs = 1_000

type Supervisor = ReturnType<typeof createSupervisor>

export function createSupervisor(data: PgliteThreadData, log: Logger) {
  const deadline = () => Date.now() + data.transactionMsMax
  let thread: Thread | undefined
  let startedAt = Number.NEGATIVE_INFINITY
  let closing: Promise<void> | undefined

  function start(): Thread {
    const opened: Thread = openWorker<PgliteThread>(
      { entry: new URL('./pglite-thread.ts', import.meta.url), name: 'relational', data, callsMax },
      (cause) => {
        if (thread === opened) thread = undefined
        if (!closing) log.error({ reason: describeError(cause) }, 'relational.thread-died')
        return relationalUnavailable(cause)
      },
    )
    opened.on('notify', ({ channel, payload }: { channel: string; payload: string }) =>
      channels.deliver(channel, payload),
    )
    for (const channel of channels.names()) opened.call.listen(channel, deadline()).catch(() => {})
    return opened
  }

  /** The live thread. Throws AppError `relational_engine_unavailable` right after a death, `shutting_down` after close. */
  function get(): Thread {
    if (closing) throw new AppError('shutting_down', 'The relational engine is closed.')
    if (thread) return thread
    if (performance.now() - startedAt < restartMs) throw relationalUnavailable()
    startedAt = performance.now()
    thread = start()
    return thread
  }

  const channels = createChannels({
    listen: async (channel) => get().call.listen(channel, deadline()),
    async unlisten(channel) {
      if (!closing) await get().call.unlisten(channel, deadline())
    },
  })

  return {
    get,
    listen: channels.listen,
    /** Ends this thread, whatever it is doing: the next call gets a fresh one. */
    async replace(stuck: Thread): Promise<void> {
      if (thread === stuck) thread = undefined
      await stuck.terminate()
    },
    close(): Promise<void> {
      closing ??= thread ? stop(thread, log) : Promise.resolve()
      return closing
    },
  }
}

async function stop(thread: Thread, log: Logger): Promise<void> {
  const closed = thread.call.close(Date.now() + closeTimeoutMs)
  await withTimeout(closed, closeTimeoutMs, () => relationalUnavailable()).catch((error) => {
    log.warn({ reason: describeError(error) }, 'relational.close-failed')
  })
  await thread.terminate()
}
