/** The handler calls of one group that are running: their time-outs, their signals, their one end. */

import { describeError, isUnavailable } from '#lib/errors.ts'
import { type Outcome, retry, unavailable } from '#lib/outcome.ts'
import type { CallContext } from '../consumer.ts'

export type CallEnd<T> = (result: T | undefined, error: unknown, call: Call) => void

/** One call; what the handler sees of it. The signal is made when it is asked for: most handlers of records never do. */
export class Call implements CallContext {
  readonly attempt: number
  readonly partition: number
  readonly startedAt = performance.now()
  timedOut = false
  /** Ends the call from outside: a handler that does not heed its signal is not waited for without end. */
  giveUp: () => void = () => {}
  #aborted = false
  #controller: AbortController | undefined

  constructor(partition: number, attempt: number) {
    this.partition = partition
    this.attempt = attempt
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#aborted) this.#controller.abort()
    }
    return this.#controller.signal
  }

  abort(): void {
    this.#aborted = true
    this.#controller?.abort()
  }
}

export class Calls {
  readonly #timeoutMs: number
  /** In the order of their start, so that a sweep may stop at the first that is in time. */
  readonly #open = new Set<Call>()
  /** Given up, and still running. */
  readonly #strays = new Set<Call>()
  #idle: (() => void)[] = []

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  get size(): number {
    return this.#open.size
  }

  /** Runs `start`; `end` is called exactly once: with the result, the error, or neither when it was given up. */
  run<T>(call: Call, start: () => Promise<T>, end: CallEnd<T>): void {
    let over = false
    const finish = (result: T | undefined, error: unknown) => {
      if (over) return
      over = true
      this.#open.delete(call)
      end(result, error, call)
      if (this.#open.size === 0) for (const resolve of this.#idle.splice(0)) resolve()
    }
    call.giveUp = () => {
      this.#strays.add(call)
      finish(undefined, new Error('the call did not heed its signal and was given up'))
    }
    const settle = (result: T | undefined, error: unknown) => {
      if (over) this.#strays.delete(call)
      else finish(result, error)
    }
    this.#open.add(call)
    let running: Promise<T>
    try {
      running = start()
    } catch (error) {
      running = Promise.reject(error)
    }
    Promise.resolve(running).then(
      (result) => settle(result, undefined),
      (error) => settle(undefined, error ?? new Error('the handler threw nothing')),
    )
  }

  /**
   * Aborts what is overdue. A record is not tried again while its old call runs, so the call has as long again to end
   * after its signal; then it is given up.
   */
  sweep(): void {
    const now = performance.now()
    for (const call of this.#open) {
      const age = now - call.startedAt
      if (age < this.#timeoutMs) return
      if (!call.timedOut) {
        call.timedOut = true
        call.abort()
      } else if (age >= this.#timeoutMs * 2) {
        call.giveUp()
      }
    }
  }

  /** Resolves when none runs. */
  idle(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  /** True while any call of a partition runs, given up or not. */
  running(partition: number): boolean {
    return [...this.#open, ...this.#strays].some((call) => call.partition === partition)
  }

  /** Aborts the calls of one partition. */
  abort(partition: number): void {
    for (const call of this.#open) if (call.partition === partition) call.abort()
  }
}

/** What a throw or a time-out means. */
export function outcomeOfFailure(error: unknown, call: Call, timeoutMs: number): Outcome {
  if (call.timedOut) return retry(`no outcome within ${timeoutMs} ms`)
  if (isUnavailable(error)) {
    return unavailable(error.code.replace(/_unavailable$/, ''), describeError(error))
  }
  return retry(describeError(error))
}
