/** The handler calls of one group that are running: their time-outs, their signals, their one end. */

import { describeError, isUnavailable } from '#lib/errors.ts'
import { type Outcome, retry, unavailable } from '#lib/outcome.ts'
import type { CallContext } from '../consumer.ts'

/** One call; what the handler sees of it. The signal is made when it is asked for: most handlers of records never do. */
export abstract class Call implements CallContext {
  readonly attempt: number
  readonly spent: number
  readonly partition: number
  readonly startedAt = performance.now()
  timedOut = false
  /** Neighbours in the list of open calls. */
  before: Call | null = null
  after: Call | null = null
  open = false
  #aborted = false
  #controller: AbortController | undefined
  #stop: (() => void) | undefined

  constructor(partition: number, attempt: number, spent = attempt - 1) {
    this.partition = partition
    this.attempt = attempt
    this.spent = spent
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#aborted) this.#controller.abort()
    }
    return this.#controller.signal
  }

  heed(stop: () => void): void {
    this.#stop = stop
    if (this.#aborted) stop()
  }

  abort(): void {
    this.#aborted = true
    this.#controller?.abort()
    this.#stop?.()
  }

  /** The call does not end although it was aborted: work goes on without it. */
  abstract gaveUp(error: Error): void
}

/** Calls in the order of their start; nothing is allocated for one but itself. */
export class Calls {
  readonly #timeoutMs: number
  #first: Call | null = null
  #last: Call | null = null
  #size = 0
  /** Given up, and still running. */
  readonly #strays = new Set<Call>()
  #idle: (() => void)[] = []

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  get size(): number {
    return this.#size
  }

  begin(call: Call): void {
    call.open = true
    call.before = this.#last
    if (this.#last) this.#last.after = call
    else this.#first = call
    this.#last = call
    this.#size++
  }

  /** False when the call was given up before: nobody waits for its result any more. */
  end(call: Call): boolean {
    if (!call.open) {
      this.#strays.delete(call)
      return false
    }
    this.#remove(call)
    return true
  }

  /**
   * Aborts what is overdue. A record is not tried again while its old call runs, so the call has as long again to end
   * after its signal; then it is given up.
   */
  sweep(): void {
    const now = performance.now()
    let call = this.#first
    while (call && now - call.startedAt >= this.#timeoutMs) {
      const { after } = call
      if (!call.timedOut) {
        call.timedOut = true
        call.abort()
      } else if (now - call.startedAt >= this.#timeoutMs * 2) {
        this.#strays.add(call)
        this.#remove(call)
        call.gaveUp(new Error('the call did not heed its signal and was given up'))
      }
      call = after
    }
  }

  /** Resolves when none runs. */
  idle(): Promise<void> {
    if (this.#size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  /** True while any call of a partition runs, given up or not. */
  running(partition: number): boolean {
    return [...this.#open(), ...this.#strays].some((call) => call.partition === partition)
  }

  /** Aborts the calls of one partition. */
  abort(partition: number): void {
    for (const call of this.#open()) if (call.partition === partition) call.abort()
  }

  #open(): Call[] {
    const all: Call[] = []
    for (let call = this.#first; call; call = call.after) all.push(call)
    return all
  }

  #remove(call: Call): void {
    call.open = false
    if (call.before) call.before.after = call.after
    else this.#first = call.after
    if (call.after) call.after.before = call.before
    else this.#last = call.before
    call.before = null
    call.after = null
    this.#size--
    if (this.#size === 0) for (const resolve of this.#idle.splice(0)) resolve()
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
