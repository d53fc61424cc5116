/**
 * How batches become calls of an engine. A batch is cut: after a call that took too long the partition's calls take half
 * as many records, down to one, and grow again while they work; a record that is alone in its call and still finds no end
 * is reported. And what several partitions write at the same time is joined into few calls.
 */

import type { Span } from '@opentelemetry/api'
import { AppError, describeError, type ErrorCode, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, split, unavailable } from '#lib/outcome.ts'
import { noTracing, type Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { StuckRecords } from './stuck.ts'

/** Calls that must have worked before they take twice as many records. */
const workedUntilGrowth = 16

/** A record, and what the engine gets of it. */
export interface Pending<T> {
  /** Its place in the batch. */
  index: number
  offset: number
  key: string
  operation: T
}

interface EngineCall {
  partition: number
  signal: AbortSignal
}

export interface EngineCalls {
  /**
   * Writes what it can within the time of one handler call, in order. `alone`: the call must not be joined with those of
   * other partitions, because it may be the one that takes too long. Resolves with the number of written records and
   * the fault of the call that ended the writing early; never rejects.
   */
  write<T>(
    pending: Pending<T>[],
    call: EngineCall,
    write: (some: Pending<T>[], alone: boolean) => Promise<void>,
  ): Promise<{ written: number; fault: unknown }>
}

export function createEngineCalls(parts: {
  recordsMax: number
  /** No further call begins after this time. */
  budgetMs: number
  stuck: Pick<StuckRecords, 'failedAlone'>
}): EngineCalls {
  /** Partitions whose calls are smaller than usual. */
  const smaller = new Map<number, { size: number; worked: number }>()

  function worked(partition: number): void {
    const state = smaller.get(partition)
    if (!state || ++state.worked < workedUntilGrowth) return
    state.worked = 0
    state.size *= 2
    if (state.size >= parts.recordsMax) smaller.delete(partition)
  }

  return {
    async write(pending, { partition, signal }, write) {
      const begunAt = performance.now()
      let written = 0
      while (written < pending.length) {
        if (written > 0 && performance.now() - begunAt > parts.budgetMs) return { written, fault: slow() }
        const size = smaller.get(partition)?.size ?? parts.recordsMax
        const some = pending.slice(written, written + size)
        try {
          signal.throwIfAborted()
          await write(some, smaller.has(partition))
        } catch (fault) {
          if (isUnavailable(fault) || signal.aborted) {
            smaller.set(partition, { size: Math.max(1, some.length >> 1), worked: 0 })
            const { offset, key } = some[0]!
            if (some.length === 1) {
              parts.stuck.failedAlone({ partition, offset, key }, describeError(fault))
            }
          }
          return { written, fault }
        }
        worked(partition)
        written += some.length
      }
      return { written, fault: null }
    },
  }
}

/** Outcome of the records that were not written. Rethrows a fault that says nothing about engine or records. */
export function outcomeOfFault(engine: string, fault: unknown): BatchOutcome {
  if (isUnavailable(fault)) return unavailable(engine, fault.message)
  if (fault instanceof AppError && fault.code === 'validation_failed') return split(fault.message)
  throw fault
}

function slow(): AppError {
  return new AppError('overloaded', 'The engine is slow: the rest of the batch follows.')
}

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

interface JoinOptions {
  /** Only writes of the same group share a call. */
  group?: string
  /** Rejects at once when it aborts. */
  signal?: AbortSignal | undefined
  /** The call is not joined with those of others. */
  alone?: boolean | undefined
}

interface Joined<T> {
  write: T
  group: string
  alone: boolean
  /** The spans that it is done for. */
  spans: readonly Span[]
  /** Settled: nobody waits for it any more. */
  gone: boolean
  /** Called when the caller gives up before its call has ended. */
  left(): void
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
export function joinCalls<T extends { operations: readonly unknown[] }>(
  parts: JoinParts<T>,
): (write: T, options: JoinOptions) => Promise<void> {
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
    const refused = await callFor(part.filter((one) => !one.gone))
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
    for (const one of callers) {
      one.left = () => {
        if (callers.every(({ gone }) => gone)) abandoned.abort()
      }
    }
    try {
      const writes = callers.map(({ write }) => write)
      const spans = callers.flatMap((one) => one.spans)
      await tracing.run(spans, () => parts.call(writes, abandoned.signal))
      for (const one of callers) one.resolve()
    } catch (error) {
      const refused = error instanceof AppError && error.code === 'validation_failed'
      if (refused && callers.length > 1) return callers
      for (const one of callers) one.reject(error)
    }
    return []
  }

  return (write, { group = '', signal, alone = false }) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const abort = () => {
      one.reject(new AppError(parts.givenUp, 'The call was given up.'))
      one.left()
    }
    const end = () => {
      one.gone = true
      signal?.removeEventListener('abort', abort)
    }
    const one: Joined<T> = {
      write,
      group,
      alone,
      spans: tracing.current(),
      gone: false,
      left() {},
      resolve() {
        end()
        resolve()
      },
      reject(error) {
        end()
        reject(error)
      },
    }
    signal?.addEventListener('abort', abort, { once: true })
    if (signal?.aborted) abort()
    else enter(one)
    return promise
  }
}
