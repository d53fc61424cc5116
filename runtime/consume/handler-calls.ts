/** Runs the handler calls of one group: their time-outs, their signals, and one end for each of them. */

import { describeError, isUnavailable } from '#lib/errors.ts'
import { type Outcome, retry, unavailable } from '#lib/outcome.ts'
import { PendingCount } from './pending-count.ts'
import type { CallContext } from './types.ts'

/** How a call ended: with the handler's answer, or with what a throw or a time-out means. */
export type CallEnd<T> = { tookMs: number } & (
  | { kind: 'answered'; answer: T }
  | { kind: 'failed'; failure: Outcome }
  | { kind: 'overdue'; failure: Outcome }
  /** It was aborted because the partition goes: it says nothing about its records. */
  | { kind: 'interrupted' }
)

/** What is known of a call before it begins. */
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

export class HandlerCalls {
  readonly #timeoutMs: number
  readonly #overdue: Outcome
  /** In the order of their start; those that were given up as well. */
  readonly #running = new Set<HandlerCall>()
  readonly #awaited = new PendingCount()

  /** `engine`: what is away when a call does not end in time; without it, the record is tried again. */
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
