/** Lets callers take turns at something scarce, so that none of them holds it against the others. */

import { overloaded } from './errors.ts'

interface TurnsOptions {
  /** Pieces of work that run at once, each by its weight. */
  atOnce: number
  /** Those of one caller. One piece runs whatever its weight. */
  perCaller: number
  /** Pieces that wait; one more fails with AppError `overloaded`. So does one of a caller that has a quarter of them waiting. */
  waitingMax: number
}

interface Waiting {
  weight: number
  start(): void
}

export function createTurns({ atOnce, perCaller, waitingMax }: TurnsOptions) {
  /** In the order in which they get their turns. */
  const queues = new Map<string, Set<Waiting>>()
  const runningOf = new Map<string, number>()
  const resting = new Map<string, NodeJS.Timeout>()
  /** Otherwise one caller could fill the queue, and all others would be refused. */
  const waitingOfCallerMax = Math.max(1, Math.floor(waitingMax / 4))
  let running = 0
  let waiting = 0

  function next(): void {
    for (const [caller, queue] of queues) {
      if (running >= atOnce) return
      const [first] = queue
      const own = runningOf.get(caller) ?? 0
      if (resting.has(caller) || (own > 0 && own + first!.weight > perCaller)) continue
      // A heavy one keeps its place: lighter ones that pass it would keep it waiting for ever.
      if (running > 0 && running + first!.weight > atOnce) return
      leave(caller, first!)
      // To the end of the circle.
      if (queue.size > 0) {
        queues.delete(caller)
        queues.set(caller, queue)
      }
      first!.start()
    }
  }
  function leave(caller: string, one: Waiting): void {
    const queue = queues.get(caller)
    if (!queue?.delete(one)) return
    waiting -= 1
    if (queue.size === 0) queues.delete(caller)
  }
  async function run<T>(caller: string, weight: number, work: () => Promise<T>): Promise<T> {
    running += weight
    runningOf.set(caller, (runningOf.get(caller) ?? 0) + weight)
    try {
      return await work()
    } finally {
      running -= weight
      const left = runningOf.get(caller)! - weight
      if (left === 0) runningOf.delete(caller)
      else runningOf.set(caller, left)
      next()
    }
  }
  return {
    /**
     * Runs `work` when it is the caller's turn: callers follow each other in a circle, the work of one in its order. `late`
     * is thrown when the turn has not come after `patienceMs`. `weight` is how many pieces it counts for.
     */
    take<T>(
      caller: string,
      patienceMs: number,
      late: () => Error,
      work: () => Promise<T>,
      weight = 1,
    ): Promise<T> {
      if (waiting >= waitingMax) return Promise.reject(overloaded('Too many calls are waiting'))
      if ((queues.get(caller)?.size ?? 0) >= waitingOfCallerMax) {
        return Promise.reject(overloaded('Too many of your calls are waiting'))
      }
      return new Promise((resolve, reject) => {
        const one: Waiting = {
          weight,
          start() {
            clearTimeout(timer)
            run(caller, weight, work).then(resolve, reject)
          },
        }
        const timer = setTimeout(() => {
          leave(caller, one)
          reject(late())
        }, patienceMs)
        const queue = queues.get(caller) ?? new Set()
        queues.set(caller, queue.add(one))
        waiting += 1
        next()
      })
    },
    /** From now on the caller gets no turn for so long. */
    rest(caller: string, ms: number): void {
      clearTimeout(resting.get(caller))
      const end = () => {
        resting.delete(caller)
        next()
      }
      resting.set(caller, setTimeout(end, ms).unref())
    },
  }
}
