/**
 * The handler calls of one group: their time-outs, their signals, one end for each of them, and none while the engine
 * behind them is away.
 */

import type { Logger } from 'pino'
import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { describeError, isUnavailable } from '#lib/errors.ts'
import { type Outcome, retry, unavailable } from '#lib/outcome.ts'
import type { SchemaName } from '#topics/topic.ts'
import { probeWaitMsMax } from './limits.ts'
import type { CallContext, ConsumerOptions } from './types.ts'

/** How a call ended: with the handler's answer, or with what a throw or a time-out means. */
export type CallEnd<T> = { tookMs: number } & (
  | { kind: 'answered'; answer: T }
  | { kind: 'failed'; failure: Outcome }
  | { kind: 'overdue'; failure: Outcome }
  /** It was aborted because the partition goes: it says nothing about its records. */
  | { kind: 'interrupted' }
)

/** Facts of a call before it begins. */
type CallFacts = Pick<CallContext, 'partition' | 'attempt' | 'retriesUsed' | 'lost'>

/** One call as its handler sees it. Its own signal is made when the handler asks for it: many never do. */
class HandlerCall implements CallContext {
  readonly partition: number
  readonly attempt: number
  readonly retriesUsed: number
  readonly lost: AbortSignal
  readonly giveUp: () => void
  readonly startedAt = performance.now()
  timedOut = false
  /** It did not end although it was aborted: nobody waits for it any more. */
  givenUp = false
  #controller: AbortController | undefined

  constructor(facts: CallFacts, giveUp: () => void) {
    this.partition = facts.partition
    this.attempt = facts.attempt
    this.retriesUsed = facts.retriesUsed
    this.lost = facts.lost
    this.giveUp = giveUp
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.timedOut || this.lost.aborted) this.#controller.abort()
    }
    return this.#controller.signal
  }

  get ageMs(): number {
    return performance.now() - this.startedAt
  }

  abort(): void {
    this.#controller?.abort()
  }
}

/** Counts pending work and resolves when there is none. */
export class PendingCount {
  size = 0
  #waiters: (() => void)[] = []

  begin(): void {
    this.size++
  }

  end(): void {
    if (--this.size === 0) for (const resolve of this.#waiters.splice(0)) resolve()
  }

  /** Resolves when nothing is under way. */
  idle(): Promise<void> {
    if (this.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#waiters.push(resolve))
  }
}

export class HandlerCalls {
  readonly #timeoutMs: number
  readonly #overdue: Outcome
  /** In the order of their start; those that were given up as well. */
  readonly #running = new Set<HandlerCall>()
  readonly #awaited = new PendingCount()

  /** `engine`: the engine to blame when a call does not end in time; without it, the record is tried again. */
  constructor(timeoutMs: number, engine?: string) {
    const reason = `no outcome within ${timeoutMs} ms`
    this.#timeoutMs = timeoutMs
    this.#overdue = engine === undefined ? retry(reason) : unavailable(engine, reason)
  }

  /** Calls that somebody waits for. */
  get size(): number {
    return this.#awaited.size
  }

  /** True while a call runs that began more than `ms` ago. */
  longerThan(ms: number): boolean {
    for (const call of this.#running) return call.ageMs > ms
    return false
  }

  /** Resolves with the end of the call, also when the handler throws, takes too long or never returns. */
  run<T>(facts: CallFacts, handle: (context: CallContext) => Promise<T>): Promise<CallEnd<T>> {
    const { promise, resolve } = Promise.withResolvers<CallEnd<T>>()
    const call: HandlerCall = new HandlerCall(facts, () => resolve(this.#overdueEnd(call)))
    this.#running.add(call)
    this.#awaited.begin()
    void this.#follow(call, handle, resolve)
    return promise
  }

  /**
   * Aborts overdue calls. A record is not tried again while its old call runs, so the call has as long again to end
   * after its signal; then it is given up.
   */
  abortOverdue(): void {
    for (const call of this.#running) {
      const { ageMs } = call
      if (ageMs < this.#timeoutMs) return
      if (!call.timedOut) {
        call.timedOut = true
        call.abort()
      } else if (ageMs >= this.#timeoutMs * 2 && !call.givenUp) {
        call.givenUp = true
        call.giveUp()
        this.#awaited.end()
      }
    }
  }

  /** Resolves when nobody waits for a call. */
  idle(): Promise<void> {
    return this.#awaited.idle()
  }

  /** True while any call of a partition runs, given up or not. */
  running(partition: number): boolean {
    return [...this.#running].some((call) => call.partition === partition)
  }

  /** Aborts the calls of one partition; its `lost` is aborted already. */
  abort(partition: number): void {
    for (const call of this.#running) if (call.partition === partition) call.abort()
  }

  async #follow<T>(
    call: HandlerCall,
    handle: (context: CallContext) => Promise<T>,
    resolve: (end: CallEnd<T>) => void,
  ): Promise<void> {
    let end: CallEnd<T>
    try {
      const answer = await handle(call)
      end = { kind: 'answered', answer, tookMs: call.ageMs }
    } catch (error) {
      end = call.lost.aborted
        ? { kind: 'interrupted', tookMs: call.ageMs }
        : { kind: 'failed', failure: outcomeOf(error), tookMs: call.ageMs }
    }
    this.#running.delete(call)
    if (call.givenUp) return
    // In this order: who waits for the call goes on before who waits for all calls.
    resolve(call.timedOut ? this.#overdueEnd(call) : end)
    this.#awaited.end()
  }

  #overdueEnd<T>(call: HandlerCall): CallEnd<T> {
    return { kind: 'overdue', failure: this.#overdue, tookMs: call.ageMs }
  }
}

/** What a throw means. */
function outcomeOf(error: unknown): Outcome {
  if (!isUnavailable(error)) return retry(describeError(error))
  return unavailable(error.code.replace(/_unavailable$/, ''), describeError(error))
}

/** Stops the calls of a group while the engine behind its handlers is unavailable, and finds out when it is back. */
export class EngineBreaker {
  readonly #options: Pick<ConsumerOptions<SchemaName>, 'backoff' | 'callTimeoutMs' | 'probe'>
  readonly #log: Logger
  readonly #onReady: () => void
  readonly #closing = new AbortController()
  /** The engine that is away: calls wait. */
  waitingFor: string | null = null
  paused = false
  #failures = 0

  /** Without a probe the calls themselves find out, after each wait. `onReady` is called whenever calls may start again. */
  constructor(options: ConsumerOptions<SchemaName>, log: Logger, onReady: () => void) {
    this.#options = options
    this.#log = log
    this.#onReady = onReady
  }

  get allowsCalls(): boolean {
    return !this.paused && this.waitingFor === null
  }

  /** A call found the engine away. */
  trip(engine: string, reason: string): void {
    if (this.waitingFor !== null) return
    this.waitingFor = engine
    this.#warn(engine, reason)
    void this.#wait(engine)
  }

  /** A call ended, and not because the engine is away. */
  callWorked(): void {
    if (this.waitingFor === null) this.#failures = 0
  }

  /** Calls may not start while the group is paused. */
  setPaused(paused: boolean): void {
    this.paused = paused
    if (!paused) this.#onReady()
  }

  close(): void {
    this.#closing.abort()
  }

  /** The back-off goes on until a call has worked: a probe may be kinder than the work is. */
  async #wait(engine: string): Promise<void> {
    const { backoff, callTimeoutMs } = this.#options
    const bounded = { ...backoff, maxMs: Math.min(backoff.maxMs, probeWaitMsMax) }
    while (this.waitingFor !== null) {
      await sleep(backoffMs(this.#failures++, bounded), this.#closing.signal)
      if (this.#closing.signal.aborted) return
      try {
        const probing = this.#options.probe?.(engine)
        if (probing) await withTimeout(probing, callTimeoutMs, () => new Error('no answer in time'))
        this.waitingFor = null
      } catch (error) {
        this.#warn(engine, describeError(error))
      }
    }
    this.#log.info({ engine }, 'consumer.engine-back')
    this.#onReady()
  }

  #warn(engine: string, detail: string): void {
    this.#log.warn({ engine, detail }, 'consumer.engine-away')
  }
}
