/** How far the work of a partition may be ahead of its commits: a kill or a lost partition repeats no more than that. */

import { uncommittedMs } from './limits.ts'

export interface HeadroomBounds {
  /** Calls that can run side by side now. */
  concurrency(): number
  /** Most units (records in lanes, batches) that may be settled and not committed, however quick they are. */
  most: number
}

/** Counts units of work; at least `concurrency` of them, and what is done in 20 ms, may be ahead. */
export class Headroom {
  readonly #bounds: HeadroomBounds
  /** Units settled so far; of these told to the last commit; of these known to be committed. */
  #settled = 0
  #told = 0
  #durable = 0
  #units = 0
  /** A unit's usual time: the mean of the first ones, then a moving one; before, what makes the bound tightest. */
  #unitMs = uncommittedMs
  /** A commit's usual time, a moving mean. */
  #commitMs = uncommittedMs
  #toldAt = 0

  constructor(bounds: HeadroomBounds) {
    this.#bounds = bounds
  }

  /** True when nothing should start before a commit is through. */
  get used(): boolean {
    return this.#settled - this.#durable >= this.#bound()
  }

  /**
   * True when the next commit should not be put off: half is used, and what is left goes by while two are written. What a
   * commit under way carries is as good as committed: another one right behind it would carry next to nothing.
   */
  get dwindling(): boolean {
    const bound = this.#bound()
    const ahead = this.#settled - this.#told
    const duringCommit = (this.#bounds.concurrency() * this.#commitMs) / this.#unitMs
    return ahead * 2 >= bound && bound - ahead <= duringCommit * 2
  }

  /** True when a commit would carry anything. */
  get ripe(): boolean {
    return this.#settled > this.#durable
  }

  took(ms: number): void {
    this.#units++
    this.#unitMs += (ms - this.#unitMs) / Math.min(this.#units, 16)
  }

  settled(): void {
    this.#settled++
  }

  /** A commit is about to carry all that is settled now. */
  told(): void {
    this.#told = this.#settled
    this.#toldAt = performance.now()
  }

  /** That commit is through. */
  committed(): void {
    this.#durable = this.#told
    this.#commitMs += (performance.now() - this.#toldAt - this.#commitMs) / 4
  }

  #bound(): number {
    const { most } = this.#bounds
    const concurrency = this.#bounds.concurrency()
    return Math.min(most, Math.max(concurrency, (concurrency * uncommittedMs) / this.#unitMs))
  }
}
