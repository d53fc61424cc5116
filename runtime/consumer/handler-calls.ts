/** Runs the handler calls of one group: their time-outs, their signals, and one end for each of them. */

import { describeError, isUnavailable } from '#lib/errors.ts'
import { type Outcome, retry, unavailable } from '#lib/outcome.ts'
import { PendingCount } from './pending-count.ts'
import type { CallContext } from './types.ts'

/** How a call ended: with the handler's answer, or with what a throw or a time-out means. */
export type CallEnd<T> = { answer: T; tookMs: number } | { failure: Outcome; tookMs: number }

/** What is known of a call before it begins. */
export type CallFacts = Pick<CallContext, 'partition' | 'attempt' | 'retriesUsed'>

/** One call as its handler sees it. The signal is made when the handler asks for it: many never do. */
class HandlerCall implements CallContext {
  readonly partition: number
  readonly attempt: number
  readonly retriesUsed: number
  readonly giveUp: (end: { failure: Outcome; tookMs: number }) => void
  readonly startedAt = performance.now()
  timedOut = false
  /** It did not end although it was aborted: nobody waits for it any more. */
  givenUp = false
  #aborted = false
  #controller: AbortController | undefined

  constructor(facts: CallFacts, giveUp: HandlerCall['giveUp']) {
    this.partition = facts.partition
    this.attempt = facts.attempt
    this.retriesUsed = facts.retriesUsed
    this.giveUp = giveUp
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#aborted) this.#controller.abort()
    }
    return this.#controller.signal
  }

  get ageMs(): number {
    return performance.now() - this.startedAt
  }

  abort(): void {
    this.#aborted = true
    this.#controller?.abort()
  }
}

export class HandlerCalls {
  readonly #timeoutMs: number
  /** In the order of their start; those that were given up as well. */
  readonly #running = new Set<HandlerCall>()
  readonly #awaited = new PendingCount()

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** Calls that somebody waits for. */
  get size(): number {
    return this.#awaited.size
  }

  /** Resolves with the end of the call, also when the handler throws, takes too long or never returns. */
  run<T>(facts: CallFacts, handle: (context: CallContext) => Promise<T>): Promise<CallEnd<T>> {
    const { promise, resolve } = Promise.withResolvers<CallEnd<T>>()
    const call = new HandlerCall(facts, resolve)
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
        call.giveUp({ failure: this.#tooLate(), tookMs: ageMs })
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

  /** Aborts the calls of one partition. */
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
      end = { answer, tookMs: call.ageMs }
    } catch (error) {
      end = { failure: outcomeOf(error), tookMs: call.ageMs }
    }
    if (call.timedOut) end = { failure: this.#tooLate(), tookMs: end.tookMs }
    this.#running.delete(call)
    if (call.givenUp) return
    // In this order: who waits for the call goes on before who waits for all calls.
    resolve(end)
    this.#awaited.end()
  }

  #tooLate(): Outcome {
    return retry(`no outcome within ${this.#timeoutMs} ms`)
  }
}

/** What a throw means. */
function outcomeOf(error: unknown): Outcome {
  if (!isUnavailable(error)) return retry(describeError(error))
  return unavailable(error.code.replace(/_unavailable$/, ''), describeError(error))
}
