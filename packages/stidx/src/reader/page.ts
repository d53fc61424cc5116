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
  /** At the entry reached: how many bytes its key shares with the one before, and where the rest is. */
  #shared = 0
  #restAt = 0
  #valueAt = 0

  open(page: Buffer): void {
    this.#page = page
    this.#at = treePageHeadBytes
    this.#left = page.readUInt16LE(4)
    this.#keyLength = 0
  }

  /** False at the end of the page. @throws SearchFault where the page breaks the rules of the format. */
  next(): boolean {
    if (!this.#step()) return false
    this.#takeKey()
    return true
  }

  /** Goes from the beginning of a page to the first entry not below the key: equal to it, above it, or none left. */
  seek(wanted: Buffer): 'equal' | 'above' | 'none' {
    let alike = 0
    while (this.#step()) {
      // It differs from the one before where that had already differed: below, too.
      if (this.#shared > alike) continue
      const same = this.#sameBytes(wanted, alike)
      const order = this.#orderAt(wanted, same)
      if (order >= 0) {
        this.#key.set(wanted.subarray(0, this.#shared))
        this.#takeKey()
        return order === 0 ? 'equal' : 'above'
      }
      alike = same
    }
    return 'none'
  }

  /** In a page above the leaves: the number of the page below that has the key, if any has. */
  childFor(wanted: Buffer): number {
    let child = -1
    let alike = 0
    while (this.#step()) {
      if (this.#shared <= alike) {
        const same = this.#sameBytes(wanted, alike)
        if (child !== -1 && this.#orderAt(wanted, same) > 0) break
        alike = same
      }
      child = this.#valueAt
    }
    return child === -1 ? -1 : this.#page.readUInt32LE(child)
  }

  /** Walks from the beginning of a page to the entry of this index; false where the page has fewer. */
  skipTo(index: number): boolean {
    for (let i = 0; i <= index; i++) if (!this.next()) return false
    return true
  }

  /** The key of the entry that was reached, as text, from this byte on. */
  text(start: number): string {
    return this.#key.toString('utf8', start, this.#keyLength)
  }

  /** Whether the key of the entry that was reached begins so. */
  beginsWith(prefix: Buffer): boolean {
    if (this.#keyLength < prefix.length) return false
    for (let i = 0; i < prefix.length; i++) if (this.#key[i] !== prefix[i]) return false
    return true
  }

  /** Its value, in the page. */
  value(): Buffer {
    return this.#page.subarray(this.#valueAt, this.#at)
  }

  /** Goes to the next entry without taking its key. */
  #step(): boolean {
    if (this.#left === 0) return false
    this.#left--
    const shared = this.#readLength()
    const rest = this.#readLength()
    const valueLength = this.#page[this.#at++]!
    const restAt = this.#at
    const keyLength = shared + rest
    const end = restAt + rest + valueLength
    // Bytes beyond the page are undefined, and comparisons with them are false.
    if (!(shared <= this.#keyLength && keyLength <= termBytesMax + 1 && end <= treePageBytes)) throw damaged()
    this.#shared = shared
    this.#restAt = restAt
    this.#keyLength = keyLength
    this.#valueAt = restAt + rest
    this.#at = end
    return true
  }

  #takeKey(): void {
    for (let i = this.#shared, at = this.#restAt; at < this.#valueAt; at++) this.#key[i++] = this.#page[at]!
  }

  #readLength(): number {
    const low = this.#page[this.#at++]!
    return low < 128 ? low : (low & 127) | (this.#page[this.#at++]! << 7)
  }

  /**
   * How many bytes the key that was reached begins alike with `wanted`. `alike`: as many as the key before it; where it
   * shares fewer with that one, it differs there.
   */
  #sameBytes(wanted: Buffer, alike: number): number {
    if (this.#shared < alike) return this.#shared
    const page = this.#page
    const most = Math.min(this.#keyLength, wanted.length)
    let same = alike
    for (let at = this.#restAt; same < most && page[at] === wanted[same]; at++) same++
    return same
  }

  /** Below 0, 0 or above 0: the key that was reached against one with which it begins alike for `same` bytes. */
  #orderAt(wanted: Buffer, same: number): number {
    if (same === wanted.length) return this.#keyLength - same
    if (same === this.#keyLength) return -1
    return this.#page[this.#restAt + same - this.#shared]! - wanted[same]!
  }
}

function damaged(): Error {
  return badIndex('is damaged (tree)')
}
