/** Writes that share a call of an engine. */

import type { Span } from '@opentelemetry/api'
import { unlessAborted } from '#lib/backoff.ts'
import { AppError, type ErrorCode } from '#lib/errors.ts'
import { noTracing, type Tracing } from '#runtime/observe/tracing/tracing.ts'

interface JoinParts<T> {
  /** Writes of callers with the same group. It is aborted when all of them have given up. */
  call(writes: T[], signal: AbortSignal): Promise<void>
  /** Operations that one call takes at most, unless one caller alone has more. */
  operationsMax: number
  /** Calls that run at the same time; as many as there are when it is left out. */
  callsMax?: number
  /** While a call runs, later writes wait for its end to go together, but no longer than this. */
  gatherMsMax?: number
  /** The code of the fault that a caller gets when its signal aborts. */
  givenUp: ErrorCode
  tracing?: Tracing | undefined
}

interface Joined<T> {
  write: T
  group: string
  alone: boolean
  /** Nobody waits for it any more when it is aborted. */
  signal: AbortSignal | undefined
  /** The spans that it is done for. */
  spans: readonly Span[]
  resolve(): void
  reject(error: unknown): void
}

/**
 * Each partition has a batch of its own, and a request of many points touches all of them: writes of one turn of the
 * event loop, or those that arrive while calls run, go together into one call, because its price (a message to the engine,
 * a transaction, the wait for the disk) is paid once then. Batches on their way at the same time are of different
 * partitions, so they share no point. Where the engine refuses a joined call, each write is tried alone, so that each
 * caller learns of its own fault only.
 */
export function joinCalls<T extends { operations: readonly unknown[] }>(parts: JoinParts<T>) {
  const { operationsMax, callsMax = Number.POSITIVE_INFINITY, gatherMsMax = 0, tracing = noTracing } = parts
  let waiting: Joined<T>[] = []
  let running = 0
  let planned = false
  let gathering: NodeJS.Timeout | undefined

  function enter(one: Joined<T>): void {
    if (one.alone && running < callsMax) return void begin([one])
    waiting.push(one)
    if (running === 0 || gatherMsMax === 0) plan()
    else gathering ??= setTimeout(pump, gatherMsMax)
  }
  /** Partitions hand in their batches within one turn of the event loop: the first waits for the others. */
  function plan(): void {
    if (!planned) setImmediate(pump)
    planned = true
  }
  function pump(): void {
    planned = false
    clearTimeout(gathering)
    gathering = undefined
    while (waiting.length > 0 && running < callsMax) void begin(takeNext())
  }
  function takeNext(): Joined<T>[] {
    const first = waiting[0]!
    const taken = new Set<Joined<T>>()
    let operations = 0
    for (const one of waiting) {
      if (one.group !== first.group) continue
      operations += one.write.operations.length
      if (taken.size > 0 && (operations > operationsMax || one.alone || first.alone)) break
      taken.add(one)
    }
    waiting = waiting.filter((one) => !taken.has(one))
    return [...taken]
  }
  async function begin(part: Joined<T>[]): Promise<void> {
    running++
    const refused = await callFor(part.filter(({ signal }) => !signal?.aborted))
    running--
    for (const one of refused) {
      one.alone = true
      enter(one)
    }
    if (waiting.length > 0 && (running === 0 || gatherMsMax === 0)) plan()
  }
  /** Settles the callers, but for those that are to be tried alone. */
  async function callFor(callers: Joined<T>[]): Promise<Joined<T>[]> {
    if (callers.length === 0) return []
    const abandoned = new AbortController()
    const leave = () => {
      if (callers.every(({ signal }) => signal?.aborted)) abandoned.abort()
    }
    for (const { signal } of callers) signal?.addEventListener('abort', leave)
    try {
      const writes = callers.map(({ write }) => write)
      const call = () => parts.call(writes, abandoned.signal)
      const spans = callers.flatMap((one) => one.spans)
      await tracing.run(spans, call)
      for (const one of callers) one.resolve()
    } catch (error) {
      const refused = error instanceof AppError && error.code === 'validation_failed'
      if (refused && callers.length > 1) return callers
      for (const one of callers) one.reject(error)
    } finally {
      for (const { signal } of callers) signal?.removeEventListener('abort', leave)
    }
    return []
  }

  /**
   * Only writes of the same group share a call, and none does with one that is `alone`. Rejects at once when the signal
   * aborts.
   */
  return (
    write: T,
    options: { group?: string; signal?: AbortSignal | undefined; alone?: boolean | undefined },
  ): Promise<void> => {
    const { group = '', signal, alone = false } = options
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const spans = tracing.current()
    if (!signal?.aborted) enter({ write, group, alone, signal, spans, resolve, reject })
    const givenUp = () => new AppError(parts.givenUp, 'The call was given up.')
    return signal ? unlessAborted(promise, signal, givenUp) : promise
  }
}
