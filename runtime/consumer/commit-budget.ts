/** Limits how far work may be ahead of its commits: a kill or a lost partition repeats no more than that. */

import { uncommittedMs } from './limits.ts'

export interface CommitBudgetBounds {
  /** Calls that can run side by side now. */
  concurrency(): number
  /** Most units (records in lanes, batches) that may be settled and not committed, however quick they are. */
  most: number
}

/** Counts units of work: at least `concurrency` of them, and what is done in 20 ms, may be ahead. */
export class CommitBudget {
  readonly #bounds: CommitBudgetBounds
  /** Units settled so far; of these in the newest commit; of these known to be committed. */
  #settled = 0
  #inCommit = 0
  #durable = 0
  #units = 0
  /** A unit's usual time: the mean of the first ones, then a moving one; before, what makes the bound tightest. */
  #unitMs = uncommittedMs
  /** A commit's usual time, a moving mean. */
  #commitMs = uncommittedMs
  #commitBegunAt = 0

  constructor(bounds: CommitBudgetBounds) {
    this.#bounds = bounds
  }

  /** True when nothing should start before a commit is through. */
  get exhausted(): boolean {
    return this.#settled - this.#durable >= this.#bound()
  }

  /**
   * True when the next commit should not be put off: half is used, and what is left goes by while two are written. What a
   * commit under way carries is as good as committed: another one right behind it would carry next to nothing.
   */
  get runningLow(): boolean {
    const bound = this.#bound()
    const ahead = this.#settled - this.#inCommit
    const duringCommit = (this.#bounds.concurrency() * this.#commitMs) / this.#unitMs
    return ahead * 2 >= bound && bound - ahead <= duringCommit * 2
  }

  /** True when a commit would carry anything. */
  get hasUncommitted(): boolean {
    return this.#settled > this.#durable
  }

  /** A unit took this long. */
  measure(ms: number): void {
    this.#units++
    this.#unitMs += (ms - this.#unitMs) / Math.min(this.#units, 16)
  }

  unitSettled(): void {
    this.#settled++
  }

  /** A commit is about to carry all that is settled now. */
  commitBegins(): void {
    this.#inCommit = this.#settled
    this.#commitBegunAt = performance.now()
  }

  /** That commit is durable. */
  commitEnded(): void {
    this.#durable = this.#inCommit
    this.#commitMs += (performance.now() - this.#commitBegunAt - this.#commitMs) / 4
  }

  #bound(): number {
    const { most } = this.#bounds
    const concurrency = this.#bounds.concurrency()
    return Math.min(most, Math.max(concurrency, (concurrency * uncommittedMs) / this.#unitMs))
  }
}
