/** Finds the first record of a table that has not expired. */

import type { StatementSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { allRows } from '#lib/sqlite-rows.ts'

/** Rows looked at before other work of the thread gets its turn. */
export const rowsPerLook = 1_000

/**
 * `select` gives `rowsPerLook` rows from the one that holds an offset on: offsets of their first and last record, and
 * their time.
 */
export async function findUnexpired(select: StatementSync, start: number, cutoff: number): Promise<number> {
  let at = start
  for (;;) {
    const rows = allRows<{ first: number; last: number; ts: number }>(select, at)
    const kept = rows.find((row) => row.ts >= cutoff)
    if (kept) return Math.max(kept.first, start)
    if (rows.length === 0) return at
    at = rows.at(-1)!.last + 1
    await setImmediate()
  }
}
