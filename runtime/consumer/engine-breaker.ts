/** Stops the calls of a group while the engine behind its handlers is unavailable, and finds out when it is back. */

import { type BackoffOptions, backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import { probeWaitMsMax } from './limits.ts'

export interface EngineBreakerOptions {
  backoff: BackoffOptions
  callTimeoutMs: number
  /** Asked while an engine is away; without it one record is tried at a time. */
  probe: ((engine: string) => Promise<void>) | undefined
  /** Called whenever calls may start again. */
  onReady(): void
  onChange(event: 'away' | 'back', engine: string, detail: string): void
}

export class EngineBreaker {
  readonly #options: EngineBreakerOptions
  readonly #closing = new AbortController()
  /** The engine that is away: calls wait. */
  #away: string | null = null
  #failures = 0
  /** While the engine is away and nothing else can show that it is back: one call is let through to find out. */
  #trial: 'none' | 'offered' | 'taken' = 'none'
  #trialUntil = 0
  #paused = false

  constructor(options: EngineBreakerOptions) {
    this.#options = options
  }

  get waitingFor(): string | null {
    return this.#away
  }

  get paused(): boolean {
    return this.#paused
  }

  /** True when a call may start now. A trial is given once: ask only with a call at hand. */
  allowsCall(): boolean {
    if (this.#paused) return false
    if (this.#away === null) return true
    if (this.#trial === 'taken' && performance.now() > this.#trialUntil) this.#trial = 'offered'
    if (this.#trial !== 'offered') return false
    this.#trial = 'taken'
    this.#trialUntil = performance.now() + this.#options.callTimeoutMs * 2
    return true
  }

  /** A call found the engine away. */
  trip(engine: string, reason: string): void {
    if (this.#away !== null && this.#trial === 'none') return
    if (this.#away === null) this.#options.onChange('away', engine, reason)
    this.#away = engine
    this.#trial = 'none'
    void this.#wait(engine)
  }

  /** A call ended, and not because the engine is away. */
  callWorked(): void {
    if (this.#away === null) {
      this.#failures = 0
    } else if (this.#trial === 'taken') {
      this.#failures = 0
      this.#reset()
    }
  }

  /** Calls may not start while the group is paused. */
  setPaused(paused: boolean): void {
    this.#paused = paused
    if (!paused) this.#options.onReady()
  }

  close(): void {
    this.#closing.abort()
  }

  async #wait(engine: string): Promise<void> {
    const { backoff, callTimeoutMs, probe } = this.#options
    const bounded = { ...backoff, maxMs: Math.min(backoff.maxMs, probeWaitMsMax) }
    for (;;) {
      await sleep(backoffMs(this.#failures++, bounded), this.#closing.signal)
      if (this.#closing.signal.aborted) return
      if (!probe) {
        this.#trial = 'offered'
        this.#options.onReady()
        return
      }
      try {
        await withTimeout(probe(engine), callTimeoutMs, () => new Error('no answer in time'))
        // The back-off goes on from here until a call has worked: a probe may be kinder than the work is.
        return this.#reset()
      } catch (error) {
        this.#options.onChange('away', engine, describeError(error))
      }
    }
  }

  #reset(): void {
    const engine = this.#away
    this.#away = null
    this.#trial = 'none'
    if (engine !== null) this.#options.onChange('back', engine, '')
    this.#options.onReady()
  }
}
