/** Items of a partition in the order of their offsets: what lies beyond the applied offset is never looked at. */

export interface ByOffset<T extends { readonly offset: number }> {
  add(item: T): void
  /** Nothing happens for one that is not there (any more). */
  remove(item: T): void
  /** Removes and gives the items up to this offset, smallest first. */
  takeThrough(offset: number): T[]
}

/** Offsets come in nearly rising order, so that an item is nearly always added at the end. */
export function createByOffset<T extends { readonly offset: number }>(): ByOffset<T> {
  const items: T[] = []

  /** The index of the first item at or beyond `offset`. */
  function firstAt(offset: number): number {
    let low = 0
    let high = items.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (items[middle]!.offset < offset) low = middle + 1
      else high = middle
    }
    return low
  }

  return {
    add(item) {
      items.splice(firstAt(item.offset + 1), 0, item)
    },
    remove(item) {
      // Only those of the same offset are looked at: one that was taken is not searched for among all the others.
      for (let at = firstAt(item.offset); items[at]?.offset === item.offset; at++) {
        if (items[at] === item) return void items.splice(at, 1)
      }
    },
    takeThrough(offset) {
      // Mostly nothing is reached: one look at the first item says so.
      if (items.length === 0 || items[0]!.offset > offset) return []
      return items.splice(0, firstAt(offset + 1))
    },
  }
}
