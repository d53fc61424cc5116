/** Counts what is under way and resolves when nothing is. */

export class PendingCount {
  #count = 0
  #waiters: (() => void)[] = []

  get size(): number {
    return this.#count
  }

  begin(): void {
    this.#count++
  }

  end(): void {
    if (--this.#count === 0) for (const resolve of this.#waiters.splice(0)) resolve()
  }

  /** Resolves when nothing is under way. */
  idle(): Promise<void> {
    if (this.#count === 0) return Promise.resolve()
    return new Promise((resolve) => this.#waiters.push(resolve))
  }
}
