/** Joins writes of several partitions that arrive together into one engine call for each collection. */

import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'
import type { OpenSpan, Tracing } from '#runtime/observe/tracing/tracing.ts'

/** Rejects at once when the signal aborts; `alone`: the call is not joined with those of others. */
export type ApplyPoints = (
  collection: string,
  operations: PointOperation[],
  options: { signal: AbortSignal; alone?: boolean },
) => Promise<void>

/** Operations that one engine call takes at most; more go into the next one. */
const joinedOperationsMax = 2_000
/** While a call is under way, what comes waits for its end to go together, but no longer than this. */
const gatherMsMax = 50

class Caller {
  readonly collection: string
  readonly operations: PointOperation[]
  readonly alone: boolean
  /** What it is done for. */
  spans: readonly OpenSpan[] = []
  /** Settled: nobody waits for it any more. */
  gone = false
  /** Called when the caller goes before its call has ended. */
  left = () => {}
  readonly #promise = Promise.withResolvers<void>()
  readonly #signal: AbortSignal
  readonly #abort = () => {
    this.reject(new AppError('vector_engine_unavailable', 'The call was given up.'))
    this.left()
  }

  constructor(...[collection, operations, { signal, alone = false }]: Parameters<ApplyPoints>) {
    this.collection = collection
    this.operations = operations
    this.alone = alone
    this.#signal = signal
    signal.addEventListener('abort', this.#abort, { once: true })
    if (signal.aborted) this.#abort()
  }

  get promise(): Promise<void> {
    return this.#promise.promise
  }

  resolve(): void {
    this.#end()
    this.#promise.resolve()
  }

  reject(error: unknown): void {
    this.#end()
    this.#promise.reject(error)
  }

  #end(): void {
    this.gone = true
    this.#signal.removeEventListener('abort', this.#abort)
  }
}

/**
 * Each partition has a batch of its own, and a request of many points touches all of them: what comes within one turn
 * of the event loop, or while a call is under way, is written by one call, because the price of a call (a message to the
 * engine, a transaction, a report of progress) is paid once then. A call that takes long holds no other up. Where the
 * engine refuses a joined call, each caller's part is tried by itself, so that each one learns of its own fault alone. A
 * joined call is aborted when all its callers are; until then it is of use to some.
 */
export function joinApplies(
  apply: VectorStore['apply'],
  generation: number,
  tracing?: Pick<Tracing, 'current' | 'run'>,
): ApplyPoints {
  let waiting: Caller[] = []
  let underWay = 0
  let gathering: NodeJS.Timeout | undefined

  async function write(part: Caller[]): Promise<void> {
    underWay++
    await tryTogether(part)
    underWay--
    if (underWay === 0 && waiting.length > 0) setImmediate(writeWaiting)
  }
  async function tryTogether(part: Caller[]): Promise<void> {
    const callers = part.filter((one) => !one.gone)
    if (callers.length === 0) return
    const abandoned = new AbortController()
    const left = () => {
      if (callers.every((one) => one.gone)) abandoned.abort()
    }
    for (const one of callers) one.left = left
    try {
      const call = () =>
        apply(
          callers[0]!.collection,
          callers.flatMap((one) => one.operations),
          { generation, signal: abandoned.signal },
        )
      const spans = callers.flatMap((one) => one.spans)
      await (tracing ? tracing.run(spans, call) : call())
      for (const one of callers) one.resolve()
    } catch (error) {
      const refused = error instanceof AppError && error.code === 'validation_failed'
      if (refused && callers.length > 1) for (const one of callers) void write([one])
      else for (const one of callers) one.reject(error)
    }
  }

  function writeWaiting(): void {
    clearTimeout(gathering)
    const together = waiting
    waiting = []
    for (const part of partsOf(together)) void write(part)
  }

  return (collection, operations, options) => {
    const caller = new Caller(collection, operations, options)
    if (tracing) caller.spans = tracing.current()
    if (caller.alone) void write([caller])
    else {
      waiting.push(caller)
      if (waiting.length > 1) return caller.promise
      if (underWay === 0) setImmediate(writeWaiting)
      else gathering = setTimeout(writeWaiting, gatherMsMax)
    }
    return caller.promise
  }
}

/** What one call each may take: callers of one collection, whole, up to the most operations. */
function partsOf(together: Caller[]): Caller[][] {
  const parts: Caller[][] = []
  for (const ofCollection of Map.groupBy(together, (one) => one.collection).values()) {
    let size = 0
    for (const one of ofCollection) {
      size += one.operations.length
      if (size > joinedOperationsMax || size === one.operations.length) {
        parts.push([])
        size = one.operations.length
      }
      parts.at(-1)!.push(one)
    }
  }
  return parts
}
