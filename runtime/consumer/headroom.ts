/** How far the work of a partition may be ahead of its commits: a kill or a lost partition repeats no more than that. */

import { uncommittedMs, uncommittedRecordsMax } from './limits.ts'

export class Headroom {
  readonly #concurrency: number
  /** Records settled so far; of these told to the last commit; of these known to be committed. */
  #settled = 0
  #told = 0
  #durable = 0
  /** A call's usual time; at first what makes the bound tightest. */
  #callMs = uncommittedMs

  constructor(concurrency: number) {
    this.#concurrency = concurrency
  }

  /** True when no record should start before a commit is through. */
  get used(): boolean {
    const most = (this.#concurrency * uncommittedMs) / this.#callMs
    const bound = Math.min(uncommittedRecordsMax, Math.max(this.#concurrency, most))
    return this.#settled - this.#durable >= bound
  }

  took(ms: number): void {
    this.#callMs += (ms - this.#callMs) / 16
  }

  settled(): void {
    this.#settled++
  }

  /** A commit is about to carry all that is settled now. */
  told(): void {
    this.#told = this.#settled
  }

  /** That commit is through. */
  committed(): void {
    this.#durable = this.#told
  }
}
