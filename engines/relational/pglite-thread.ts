/** The thread that the embedded Postgres runs in: statements one after the other, results as text. */

import { PGlite } from '@electric-sql/pglite'
import { vector } from '@electric-sql/pglite-pgvector'
import { AppError } from '#lib/errors.ts'
import { stepBack } from '#lib/step-back.ts'
import { emit, ownData, serveWorker } from '#lib/worker-rpc.ts'
import { ensureCluster } from './pglite-cluster.ts'
import { startParams } from './pglite-options.ts'
import { createStatements } from './pglite-statements.ts'
import { relationalUnavailable, translateFault } from './sql-faults.ts'
import type { TextResult } from './sql-values.ts'

export interface PgliteThreadData {
  directory: string
  sharedBuffersMb: number
  /** A transaction that is open for longer is rolled back, because everything else waits behind it. */
  transactionMsMax: number
  stepsBack?: boolean
}

export type PgliteThread = typeof handlers

const { directory, sharedBuffersMb, transactionMsMax, stepsBack } = ownData<PgliteThreadData>()
if (stepsBack === true) stepBack('thread')
await ensureCluster(directory)
const db = await PGlite.create(directory, {
  extensions: { vector },
  startParams: startParams(sharedBuffersMb),
})

const statements = createStatements(db)

/**
 * Single-user Postgres makes no checkpoint by itself before it is closed, and its log would grow for ever. How much a
 * statement writes to it is guessed from its own size.
 */
const checkpointBytes = 32 * 2 ** 20
const statementBytes = 1_024
let written = 0

let chain: Promise<unknown> = Promise.resolve()
let transactions = 0
let current: { id: number; end(): void } | undefined
const unlisteners = new Map<string, () => Promise<void>>()

const handlers = {
  query: (text: string, params: (string | null)[] | undefined, deadline: number) =>
    inTurn(deadline, () => run(text, params)),

  /**
   * One statement in a transaction of its own, which `begin` opens and which keeps nothing. `busyMs` is what it took of
   * the processor.
   */
  read: (begin: string, text: string, params: (string | null)[], deadline: number) =>
    inTurn(deadline, async () => {
      const before = process.threadCpuUsage()
      try {
        await translated(() => statements.runAll(begin))
        const result = await translated(() => statements.runOnce(text, params))
        const { user, system } = process.threadCpuUsage(before)
        return { ...result, busyMs: (user + system) / 1_000 }
      } finally {
        await statements.runAll('rollback').catch(() => {})
      }
    }),

  /** Opens a transaction when it is its turn; everything else waits until `end`. */
  begin(deadline: number): Promise<number> {
    return new Promise((resolve, reject) => {
      inTurn(deadline, async () => {
        await translated(() => statements.runAll('begin'))
        const ended = Promise.withResolvers<void>()
        const id = ++transactions
        current = { id, end: ended.resolve }
        const timer = setTimeout(() => abandon(id), transactionMsMax)
        resolve(id)
        await ended.promise
        clearTimeout(timer)
      }).catch(reject)
    })
  },
  async within(id: number, text: string, params: (string | null)[] | undefined): Promise<TextResult> {
    assertCurrent(id)
    return run(text, params)
  },
  async copy(id: number, statement: string, data: Uint8Array<ArrayBuffer>): Promise<number> {
    assertCurrent(id)
    written += data.length
    return (await translated(() => db.query(statement, [], { blob: new Blob([data]) }))).affectedRows ?? 0
  },
  /** Resolves with the command tag of the commit. A rollback may end a transaction that is gone already. */
  async end(id: number, how: 'commit' | 'rollback'): Promise<string> {
    if (how === 'rollback' && current?.id !== id) return 'ROLLBACK'
    assertCurrent(id)
    try {
      return (await run(how, undefined)).command
    } finally {
      finish(id)
    }
  },

  listen: (channel: string, deadline: number) =>
    inTurn(deadline, async () => {
      if (unlisteners.has(channel)) return
      const leave = await translated(() =>
        db.listen(channel, (payload) => emit('notify', { channel, payload })),
      )
      unlisteners.set(channel, leave)
    }),
  unlisten: (channel: string, deadline: number) =>
    inTurn(deadline, async () => {
      await unlisteners.get(channel)?.()
      unlisteners.delete(channel)
    }),
  /** Proves that the engine has started. */
  async started(): Promise<void> {},
  close: (deadline: number) => inTurn(deadline, () => db.close()),
}

/** One thing at a time; what is late before its turn is not begun at all. */
function inTurn<T>(deadline: number, work: () => Promise<T>): Promise<T> {
  const turn = chain.then(() => {
    if (Date.now() > deadline)
      throw relationalUnavailable(new Error('the statement waited too long for its turn'))
    return work()
  })
  chain = turn.catch(() => {}).then(checkpointIfDue)
  return turn
}

/** Between two turns no transaction is open. */
async function checkpointIfDue(): Promise<void> {
  if (written < checkpointBytes) return
  written = 0
  await statements.runAll('checkpoint').catch(() => {})
}

/** Without parameters the text may hold several statements; the last one's result counts. */
async function run(text: string, params: (string | null)[] | undefined): Promise<TextResult> {
  written += statementBytes + text.length
  for (const param of params ?? []) written += param?.length ?? 0
  return translated(() =>
    params === undefined || params.length === 0 ? statements.runAll(text) : statements.run(text, params),
  )
}

async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isFatal(error)) setImmediate(() => process.exit(1))
    throw translateFault(error)
  }
}

/** A fault of the WebAssembly machine leaves the engine unusable: end the thread, so that a fresh one takes over. */
function isFatal(error: unknown): boolean {
  return error instanceof RangeError || (error instanceof Error && error.name === 'RuntimeError')
}

function assertCurrent(id: number): void {
  if (current?.id !== id) {
    throw new AppError(
      'relational_engine_unavailable',
      `The transaction was rolled back, because it was open for more than ${transactionMsMax} ms.`,
    )
  }
}

async function abandon(id: number): Promise<void> {
  if (current?.id !== id) return
  // From here on its statements are refused; the rollback waits for one that is running.
  current = { id: -1, end: current.end }
  await statements.runAll('rollback').catch(() => {})
  finish(-1)
}

function finish(id: number): void {
  if (current?.id !== id) return
  const { end } = current
  current = undefined
  end()
}

serveWorker(handlers)
