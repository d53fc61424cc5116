/** Walks through the entries of one page of the tree, whose keys are written as what differs from the key before. */

import { badIndex } from '../fault.ts'
import { termBytesMax, treePageBytes, treePageHeadBytes } from '../format.ts'

/** One page at a time: `open`, then entries by rising key. */
export class PageWalk {
  #page: Buffer = Buffer.alloc(0)
  #at = 0
  #left = 0
  readonly #key = Buffer.alloc(termBytesMax + 1)
  #keyLength = 0
  #valueAt = 0

  open(page: Buffer): void {
    this.#page = page
    this.#at = treePageHeadBytes
    this.#left = page.readUInt16LE(4)
    this.#keyLength = 0
  }

  /** False at the end of the page. @throws SearchFault where the page breaks the rules of the format. */
  next(): boolean {
    if (this.#left === 0) return false
    this.#left--
    const page = this.#page
    const shared = this.#readLength()
    const rest = this.#readLength()
    const valueLength = page[this.#at++]!
    const restAt = this.#at
    const keyLength = shared + rest
    const end = restAt + rest + valueLength
    // Bytes beyond the page are undefined, and a comparison with what they make is false.
    if (!(shared <= this.#keyLength && keyLength <= termBytesMax + 1 && end <= treePageBytes)) throw damaged()
    for (let i = 0; i < rest; i++) this.#key[shared + i] = page[restAt + i]!
    this.#keyLength = keyLength
    this.#valueAt = restAt + rest
    this.#at = end
    return true
  }

  /** Walks on to the first entry not below the key; whether it is equal or above, or there is none. */
  seek(wanted: Buffer): 'equal' | 'above' | 'none' {
    while (this.next()) {
      const order = this.#compareTo(wanted)
      if (order >= 0) return order === 0 ? 'equal' : 'above'
    }
    return 'none'
  }

  /** Of a page above the leaves: the number of the page below in which the key is, if it is anywhere. */
  childFor(wanted: Buffer): number {
    let child = -1
    while (this.next()) {
      if (child !== -1 && this.#compareTo(wanted) > 0) break
      child = this.#page.readUInt32LE(this.#valueAt)
    }
    return child
  }

  /** Walks from the beginning of a page to the entry of this index; false where the page has fewer. */
  skipTo(index: number): boolean {
    for (let i = 0; i <= index; i++) if (!this.next()) return false
    return true
  }

  /** A copy of the key of the entry that was reached. */
  key(): Buffer {
    return Buffer.from(this.#key.subarray(0, this.#keyLength))
  }

  /** Its value, in the page. */
  value(): Buffer {
    return this.#page.subarray(this.#valueAt, this.#at)
  }

  #readLength(): number {
    const low = this.#page[this.#at++]!
    return low < 128 ? low : (low & 127) | (this.#page[this.#at++]! << 7)
  }

  /** Below 0, 0 or above 0: the key that was reached against another. */
  #compareTo(wanted: Buffer): number {
    const key = this.#key
    const most = Math.min(this.#keyLength, wanted.length)
    for (let i = 0; i < most; i++) {
      const difference = key[i]! - wanted[i]!
      if (difference !== 0) return difference
    }
    return this.#keyLength - wanted.length
  }
}

function damaged(): Error {
  return badIndex('is damaged (tree)')
}
