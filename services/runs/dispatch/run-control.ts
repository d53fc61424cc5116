/** A run that this dispatcher works on: how long its lease certainly holds, why it is stopped, and statements that are repeated while it holds. */

import { backoffMs, sleep } from '#lib/backoff.ts'
import { isUnavailable } from '#lib/errors.ts'
import type { ClaimedRun } from '../state/types.ts'
import { RunStopped, type StopReason } from './parts.ts'

export class RunControl {
  readonly run: ClaimedRun
  readonly #stop = new AbortController()
  #validUntil: number
  #expiry: NodeJS.Timeout
  #limit: NodeJS.Timeout

  /** `askedAt` is the `performance.now()` of before the lease was asked for. */
  constructor(run: ClaimedRun, askedAt: number, leaseMs: number, limitMs: number) {
    this.run = run
    this.#validUntil = askedAt + leaseMs
    this.#expiry = this.#expire()
    this.#limit = setTimeout(() => this.stop('timeout'), Math.max(0, limitMs))
  }

  /** Aborts with a RunStopped. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Milliseconds for which nobody else can have the run. */
  get leaseLeftMs(): number {
    return Math.max(0, this.#validUntil - performance.now())
  }

  renewed(askedAt: number, leaseMs: number): void {
    this.#validUntil = askedAt + leaseMs
    clearTimeout(this.#expiry)
    this.#expiry = this.#expire()
  }

  /** The first reason counts. */
  stop(reason: StopReason): void {
    if (!this.signal.aborted) this.#stop.abort(new RunStopped(reason))
  }

  close(): void {
    clearTimeout(this.#expiry)
    clearTimeout(this.#limit)
  }

  #expire(): NodeJS.Timeout {
    return setTimeout(() => this.stop('lease_lost'), this.leaseLeftMs)
  }
}

const backoff = { baseMs: 100, maxMs: 2_000 }

/** The statement must be one that does nothing the second time. Throws the last fault. */
export async function persist<T>(control: RunControl, statement: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await statement()
    } catch (error) {
      if (!isUnavailable(error) || control.leaseLeftMs === 0) throw error
      await sleep(Math.max(20, backoffMs(tries, backoff)))
    }
  }
}
