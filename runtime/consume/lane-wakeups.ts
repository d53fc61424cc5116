/** How a handler asks for lane heads that wait for a time to be tried now: made before the handler and the consumer. */

export class LaneWakeups {
  readonly #partitions = new Set<number>()
  #listener: ((partition: number) => void) | null = null

  /** Heads of this partition that wait for a time are tried now. Many requests of one turn of the event loop are one. */
  wake(partition: number): void {
    if (this.#partitions.size === 0) setImmediate(() => this.#deliver())
    this.#partitions.add(partition)
  }

  /** For the consumer. Before it listens no head can be waiting, so nothing is lost. */
  listen(listener: (partition: number) => void): void {
    this.#listener = listener
  }

  #deliver(): void {
    const partitions = [...this.#partitions]
    this.#partitions.clear()
    for (const partition of partitions) this.#listener?.(partition)
  }
}
