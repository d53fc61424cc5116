/**
 * The thread that the embedded Postgres runs in: statements one after the other, each one message to it, results as text. Those
 * that come again are parsed once.
 */

import { type messages, PGlite, protocol } from '@electric-sql/pglite'
import { vector } from '@electric-sql/pglite-pgvector'
import { AppError } from '#lib/errors.ts'
import { lowerPriority } from '#lib/giving-way.ts'
import { emit, ownData, serveWorker } from '#lib/worker-rpc.ts'
import { ensureCluster } from './pglite-cluster.ts'
import { isOutlived, relationalUnavailable, translateFault } from './sql-faults.ts'
import { createStatementNames, type TextResult } from './statements.ts'

const { serialize } = protocol

export interface PgliteThreadData {
  directory: string
  /** A transaction that is open for longer is rolled back, because everything else waits behind it. */
  transactionMsMax: number
  stepsBack?: boolean
}

export type PgliteThread = typeof handlers
type Fields = TextResult['fields']

const { directory, transactionMsMax, stepsBack } = ownData<PgliteThreadData>()
if (stepsBack === true) lowerPriority('thread')
await ensureCluster(directory)
const settings = [
  // Memory for pages of tables, taken from the system at once, used or not.
  'shared_buffers=16MB',
  // Log files that a checkpoint has made useless are removed, not kept for later.
  'wal_recycle=off',
  'wal_init_zero=off',
]
const db = await PGlite.create(directory, {
  extensions: { vector },
  startParams: [...PGlite.defaultStartParams, ...settings.flatMap((setting) => ['-c', setting])],
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

/** One thing at a time; a call that is late before its turn is not begun. */
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

/** Nothing else may use the engine during a call. Throws the library's DatabaseError. */
function createStatements(db: PGlite) {
  /** Columns of prepared statements, by name. */
  const prepared = new Map<string, Fields>()
  let forgotten: string[] = []
  const names = createStatementNames((name) => {
    prepared.delete(name)
    forgotten.push(name)
  })

  async function exchange(parts: Uint8Array[]): Promise<messages.BackendMessage[]> {
    const closes = forgotten.map((name) => serialize.close({ type: 'S', name }))
    forgotten = []
    // The file layer has nothing to sync.
    return db.execProtocolStream(Buffer.concat([...closes, ...parts]), { syncToFs: false })
  }

  async function runNamed(name: string, text: string, params: (string | null)[]): Promise<TextResult> {
    const known = prepared.get(name)
    const answer = await exchange([
      ...(known ? [] : [serialize.parse({ name, text }), serialize.describe({ type: 'S', name })]),
      serialize.bind({ statement: name, values: params }),
      serialize.execute({}),
      serialize.sync(),
    ])
    const result = resultOf(answer, known)
    if (name !== '') prepared.set(name, result.fields)
    return result
  }

  return {
    /** Several statements may be in the text; the last one's result counts. */
    runAll: async (text: string) => resultOf(await exchange([serialize.query(text)])),
    /** One statement. From its second use on it is prepared, which is for texts of ours. */
    async run(text: string, params: (string | null)[]): Promise<TextResult> {
      const name = names.of(text)
      if (name === undefined) return runNamed('', text, params)
      try {
        return await runNamed(name, text, params)
      } catch (error) {
        const isKnown = prepared.has(name)
        const again = isKnown && isOutlived(error)
        // One that failed at its first use may be prepared or not.
        if (!isKnown || again) names.renew(text)
        if (!again || db.isInTransaction()) throw error
        return runNamed('', text, params)
      }
    },
    /** One statement of somebody else. */
    runOnce: (text: string, params: (string | null)[]) => runNamed('', text, params),
  }
}

/** Result of the answer's last statement; `fields` are its columns where the answer does not name them. */
function resultOf(answer: messages.BackendMessage[], fields: Fields = []): TextResult {
  let result: TextResult = { fields, rows: [], rowCount: 0, command: '' }
  let next: TextResult = { ...result, rows: [] }
  for (const message of answer) {
    if (message.name === 'rowDescription') {
      next.fields = (message as messages.RowDescriptionMessage).fields.map(({ name, dataTypeID }) => ({
        name,
        type: dataTypeID,
      }))
    } else if (message.name === 'dataRow') {
      next.rows.push((message as messages.DataRowMessage).fields)
    } else if (message.name === 'commandComplete') {
      const words = (message as messages.CommandCompleteMessage).text.split(' ')
      // `INSERT 0 5`, `SELECT 2`, `CREATE TABLE`.
      result = { ...next, command: words[0]!, rowCount: Number.parseInt(words.at(-1)!, 10) || 0 }
      next = { fields: [], rows: [], rowCount: 0, command: '' }
    }
  }
  return result
}

serveWorker(handlers)
