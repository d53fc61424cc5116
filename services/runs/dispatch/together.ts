/** Sends what many runs have to write together: while one statement is on its way, the next one collects. */

import { isUnavailable } from '#lib/errors.ts'

/** One item alone goes at once, so a run that is by itself never waits. */
export type Together<T, R> = (item: T) => Promise<R>

interface TogetherOptions<T, R> {
  /** The results in the order of the items. It does for each item what it would do for it alone. */
  write(items: T[]): Promise<R[]>
  /** Statements on their way at once. */
  statementsMax: number
  /** Items of one statement. */
  itemsMax: number
}

interface Waiting<T, R> {
  item: T
  result: PromiseWithResolvers<R>
}

export function createTogether<T, R>({
  write,
  statementsMax,
  itemsMax,
}: TogetherOptions<T, R>): Together<T, R> {
  // No more than runs of this dispatcher: each waits for its result.
  const waiting: Waiting<T, R>[] = []
  let underWay = 0

  async function writeAll(some: Waiting<T, R>[]): Promise<void> {
    try {
      const results = await write(some.map(({ item }) => item))
      for (const [n, { result }] of some.entries()) result.resolve(results[n]!)
    } catch (error) {
      if (some.length === 1 || isUnavailable(error)) {
        for (const { result } of some) result.reject(error)
        return
      }
      // Only the items that are to blame may fail.
      for (const one of some) await writeAll([one])
    }
  }

  async function writeWaiting(): Promise<void> {
    underWay++
    while (waiting.length > 0) await writeAll(waiting.splice(0, itemsMax))
    underWay--
  }

  return (item) => {
    const result = Promise.withResolvers<R>()
    waiting.push({ item, result })
    if (underWay < statementsMax) void writeWaiting()
    return result.promise
  }
}
