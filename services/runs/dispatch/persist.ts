/** Repeats a statement while the database is away, as long as the lease of its run holds. */

import { backoffMs, sleep } from '#lib/backoff.ts'
import { isUnavailable } from '#lib/errors.ts'
import type { RunControl } from './run-control.ts'

const backoff = { baseMs: 100, maxMs: 2_000 }

/** The statement must be one that does nothing the second time. Throws the last fault. */
export async function persist<T>(control: RunControl, statement: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await statement()
    } catch (error) {
      if (!isUnavailable(error) || control.leaseLeftMs === 0) throw error
      await sleep(Math.max(20, backoffMs(tries, backoff)))
    }
  }
}
