/** Repeats work while another instance that does the same at the same time is in its way. */

import { sleep } from '#lib/backoff.ts'
import { sqlState } from './port.ts'

/**
 * Two instances created the same thing at once. PostgreSQL's `if not exists` does not wait for a transaction that is
 * creating it: the later one meets a unique index of the catalogue, or an object that has been created meanwhile.
 */
export const createdAtOnce = ['23505', '42P07', '42710', '42P06']
/** Two instances, or two databases of one server, changed the same row of the catalogue at once (a grant, a role). */
export const changedAtOnce = ['XX000', '40P01', '40001']
/** Waited too long for the other instance's lock. */
export const lockedOut = ['57014', '55P03', '40P01']

const triesMax = 20

/**
 * Tries again after each fault of one of these SQLSTATEs, a bounded number of times; any other fault is thrown as it
 * is.
 */
export async function whileRacing<T>(
  states: readonly string[],
  pauseMs: number,
  work: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries === triesMax || !states.includes(sqlState(error) ?? '')) throw error
      await sleep(pauseMs)
    }
  }
}
