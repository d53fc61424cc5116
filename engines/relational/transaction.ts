/** One transaction around a piece of work, and the guard against using the port inside it; both drivers share this. */

import { AsyncLocalStorage } from 'node:async_hooks'
import type { SqlExecutor, SqlTransaction } from './port.ts'

export interface OpenTransaction {
  query: SqlExecutor['query']
  copy: SqlTransaction['copy']
  /** Resolves with the command tag: `ROLLBACK` when a statement had failed before. */
  commit(): Promise<string>
  rollback(): Promise<void>
}

interface TransactionGuard {
  /** Throws inside of `run`: on the embedded engine the call would wait for its own transaction for ever. */
  assertOutside(): void
  run<T>(open: () => Promise<OpenTransaction>, work: (tx: SqlTransaction) => Promise<T>): Promise<T>
}

export function createTransactionGuard(): TransactionGuard {
  const storage = new AsyncLocalStorage<{ open: boolean }>()

  function assertOutside(): void {
    if (storage.getStore()?.open) {
      throw new Error(
        'Inside a transaction only its tx may be used: the port itself would wait for it for ever',
      )
    }
  }

  return {
    assertOutside,
    async run(open, work) {
      assertOutside()
      const transaction = await open()
      // What `work` left running may use the port again: the mark ends with the transaction.
      const mark = { open: true }
      const { tx, settled } = createExecutor(transaction, mark)
      try {
        const value = await storage.run(mark, () => work(tx))
        mark.open = false
        await settled()
        if ((await transaction.commit()) === 'ROLLBACK') {
          throw new Error('The transaction was rolled back: a statement failed and work went on regardless')
        }
        return value
      } catch (error) {
        mark.open = false
        await settled()
        await transaction.rollback()
        throw error
      }
    },
  }
}

/** Statements run one after the other, also when work does not wait for each. */
function createExecutor(transaction: OpenTransaction, mark: { open: boolean }) {
  let last: Promise<unknown> = Promise.resolve()
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (!mark.open) return Promise.reject(new Error('The transaction has ended'))
    const run = last.then(work)
    last = run.catch(() => {})
    return run
  }
  const tx: SqlTransaction = {
    query: <Row>(text: string, params?: Parameters<SqlExecutor['query']>[1]) =>
      inTurn(() => transaction.query<Row>(text, params)),
    copy: (table, columns, rows) => inTurn(() => transaction.copy(table, columns, rows)),
  }
  return { tx, settled: () => last }
}
