/** Long reads one after the other, with rests between them. */

import { sleep } from './backoff.ts'

/**
 * Runs `work` when all that was given before has ended. While others wait, each is followed by a rest as long as it took, so
 * that what is short has at least half of the time: of the event loop, and of a database with one session.
 */
export function createOneByOne(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  let waiting = 0
  return (work) => {
    waiting++
    let begun = 0
    const result = last.then(() => {
      waiting--
      begun = performance.now()
      return work()
    })
    const rest = () => (waiting > 0 ? sleep(performance.now() - begun) : undefined)
    last = result.then(rest, rest)
    return result
  }
}
