/** The waiting heads of one target by their offset. A target with one lane has one, which is kept without a map. */

/** A record that is the first of its lane and not settled. */
export interface Head {
  offset: number
  sequence: number
  receivedAtMs: number
  /** Calls made for it. */
  attempts: number
  /** No call for it starts before; of `performance.now()`, which no clock that is set steps back. */
  dueAtMs: number
}

export class Heads {
  #one: Head | null = null
  readonly #others = new Map<number, Head>()

  get size(): number {
    return (this.#one === null ? 0 : 1) + this.#others.size
  }

  /** The oldest one, by its place in the log. */
  get first(): Head | null {
    let first = this.#one
    for (const head of this.#others.values()) if (first === null || head.offset < first.offset) first = head
    return first
  }

  get(offset: number): Head | undefined {
    if (this.#one?.offset === offset) return this.#one
    return this.#others.size === 0 ? undefined : this.#others.get(offset)
  }

  /** One whose offset is not known yet. */
  add(head: Head): void {
    if (this.#one === null) this.#one = head
    else this.#others.set(head.offset, head)
  }

  delete(offset: number): void {
    if (this.#one?.offset === offset) this.#one = null
    else this.#others.delete(offset)
  }

  *[Symbol.iterator](): Generator<Head> {
    if (this.#one !== null) yield this.#one
    yield* this.#others.values()
  }
}
