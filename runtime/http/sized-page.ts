/** Pages of rows that are small, but too many for one piece of memory. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { pageBytesMax } from './answers.ts'

/** Read at once, of rows that may have some KiB: a page of the usual limit, and whether there is one more. */
const rowsAtOnce = 101
interface SizedPage<Row> {
  rows: Row[]
  /** False: there are rows behind them. */
  isLast: boolean
}

/**
 * Reads a page some rows at a time; it ends at `limit` rows or at `pageBytesMax` of their JSON, the first comes whatever its
 * size. `read` gives up to `limit` rows behind `last`, and fewer only where there are no more.
 */
export async function sizedPage<Row>(
  limit: number,
  read: (limit: number, last: Row | undefined) => Promise<Row[]>,
): Promise<SizedPage<Row>> {
  const rows: Row[] = []
  let bytes = 0
  for (;;) {
    const wanted = Math.min(rowsAtOnce, limit - rows.length + 1)
    const some = await read(wanted, rows.at(-1))
    for (const row of some) {
      bytes += Buffer.byteLength(JSON.stringify(row)) + rowBytes
      if (rows.length === limit || (rows.length > 0 && bytes > pageBytesMax)) return { rows, isLast: false }
      rows.push(row)
    }
    if (some.length < wanted) return { rows, isLast: true }
    await nextTurn()
  }
}

/** What an answer may show of a row besides what the row has: names of fields. */
const rowBytes = 512
