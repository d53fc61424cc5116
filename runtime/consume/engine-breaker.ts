/** Stops the calls of a group while the engine behind its handlers is unavailable, and finds out when it is back. */

import { type BackoffOptions, backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import { probeWaitMsMax } from './limits.ts'

interface EngineBreakerOptions {
  backoff: BackoffOptions
  callTimeoutMs: number
  /** Asked while an engine is away; without it the calls themselves find out, after each wait. */
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

  get allowsCalls(): boolean {
    return !this.#paused && this.#away === null
  }

  /** A call found the engine away. */
  trip(engine: string, reason: string): void {
    if (this.#away !== null) return
    this.#away = engine
    this.#options.onChange('away', engine, reason)
    void this.#wait(engine)
  }

  /** A call ended, and not because the engine is away. */
  callWorked(): void {
    if (this.#away === null) this.#failures = 0
  }

  /** Calls may not start while the group is paused. */
  setPaused(paused: boolean): void {
    this.#paused = paused
    if (!paused) this.#options.onReady()
  }

  close(): void {
    this.#closing.abort()
  }

  /** The back-off goes on until a call has worked: a probe may be kinder than the work is. */
  async #wait(engine: string): Promise<void> {
    const { backoff, callTimeoutMs, probe, onChange, onReady } = this.#options
    const bounded = { ...backoff, maxMs: Math.min(backoff.maxMs, probeWaitMsMax) }
    while (this.#away !== null) {
      await sleep(backoffMs(this.#failures++, bounded), this.#closing.signal)
      if (this.#closing.signal.aborted) return
      try {
        if (probe) await withTimeout(probe(engine), callTimeoutMs, () => new Error('no answer in time'))
        this.#away = null
      } catch (error) {
        onChange('away', engine, describeError(error))
      }
    }
    onChange('back', engine, '')
    onReady()
  }
}
