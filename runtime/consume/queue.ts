/** A queue whose oldest item is taken in constant time (`Array.shift` moves all that follow). */

export class Queue<T> {
  #items: (T | undefined)[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: T): void {
    this.#items.push(item)
  }

  peek(): T | undefined {
    return this.#items[this.#head]
  }

  shift(): T | undefined {
    const item = this.#items[this.#head]
    if (this.#head >= this.#items.length) return undefined
    this.#items[this.#head++] = undefined
    if (this.#head > 1_023 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  *[Symbol.iterator](): Generator<T> {
    for (let at = this.#head; at < this.#items.length; at++) yield this.#items[at]!
  }

  /** Puts what `make` returns in the place of each item. */
  replace(make: (item: T) => T): void {
    for (let at = this.#head; at < this.#items.length; at++) this.#items[at] = make(this.#items[at]!)
  }

  clear(): void {
    this.#items = []
    this.#head = 0
  }
}
