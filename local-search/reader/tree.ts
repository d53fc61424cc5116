/** A key in, its entry in the tree of terms out, or all entries whose keys begin so. */

import { badIndex } from '../fault.ts'
import { treePageBytes, treePageHeadBytes } from '../format.ts'
import type { IndexFile } from './file.ts'

/** Pages kept for the searches to come: the upper ones of the tree, and those of frequent words. */
const pagesKeptMax = 512

export interface TreeEntry {
  key: Buffer
  value: Buffer
}

export interface Tree {
  find(key: Buffer): Buffer | null
  /** By rising key; false from `visit` ends it. Keys and values are the visitor's to keep. */
  visitPrefix(prefix: Buffer, visit: (entry: TreeEntry) => boolean): void
  /** The entry at page << 8 | index. */
  at(place: number): TreeEntry
}

export function createTree(file: IndexFile): Tree {
  const { count, root } = file.header.sections.tree
  const kept = new Map<number, Buffer>()

  function pageAt(number: number, level?: number): Buffer {
    const page = kept.get(number) ?? loadPage(number)
    if (level !== undefined && page.readUInt16LE(6) !== level) throw damaged()
    return page
  }

  function loadPage(number: number): Buffer {
    const page = file.read('tree', number * treePageBytes, treePageBytes)
    if (page.readUInt32LE(0) !== file.checksum(page.subarray(4))) throw damaged()
    if (kept.size >= pagesKeptMax) kept.clear()
    kept.set(number, page)
    return page
  }

  /** The leaf in which the key stands or would stand: each step goes one level down, so there is an end. */
  function leafOf(key: Buffer): number {
    let number = root
    let page = pageAt(number)
    for (let level = page.readUInt16LE(6); level > 0; level--) {
      const cursor = new Cursor(page)
      let child = -1
      while (cursor.next() && cursor.compare(key) <= 0) child = cursor.value().readUInt32LE(0)
      // Before the first key of all: the first leaf is the one to look into.
      if (child === -1) child = firstChild(page)
      if (child >= count) throw damaged()
      number = child
      page = pageAt(number, level - 1)
    }
    return number
  }

  return {
    find(key) {
      if (count === 0) return null
      const cursor = new Cursor(pageAt(leafOf(key), 0))
      while (cursor.next()) {
        const order = cursor.compare(key)
        if (order === 0) return cursor.value()
        if (order > 0) return null
      }
      return null
    },
    visitPrefix(prefix, visit) {
      if (count === 0) return
      for (let number = leafOf(prefix); number < count; number++) {
        const page = pageAt(number)
        if (page.readUInt16LE(6) !== 0) return
        const cursor = new Cursor(page)
        while (cursor.next()) {
          if (cursor.compare(prefix) < 0) continue
          const key = cursor.key()
          if (!key.subarray(0, prefix.length).equals(prefix)) return
          if (!visit({ key, value: cursor.value() })) return
        }
      }
    },
    at(place) {
      const cursor = new Cursor(pageAt(checked(place >>> 8, count), 0))
      for (let left = (place & 255) + 1; left > 0; left--) if (!cursor.next()) throw damaged()
      return { key: cursor.key(), value: cursor.value() }
    },
  }
}

function firstChild(page: Buffer): number {
  const cursor = new Cursor(page)
  if (!cursor.next()) throw damaged()
  return cursor.value().readUInt32LE(0)
}

function checked(number: number, count: number): number {
  if (number >= count) throw damaged()
  return number
}

function damaged(): Error {
  return badIndex('is damaged (tree)')
}

/** Walks the entries of one page; keys are put together as it goes. */
class Cursor {
  readonly #page: Buffer
  #left: number
  #at = treePageHeadBytes
  #key = Buffer.allocUnsafe(256)
  #keyLength = 0
  #valueAt = 0

  constructor(page: Buffer) {
    this.#page = page
    this.#left = page.readUInt16LE(4)
  }

  next(): boolean {
    if (this.#left-- <= 0) return false
    const page = this.#page
    // Lengths of keys fit into two bytes of seven bits.
    const shared = this.#length()
    const rest = this.#length()
    const valueLength = page[this.#at]!
    const restAt = this.#at + 1
    const end = restAt + rest + valueLength
    if (!(shared <= this.#keyLength && shared + rest <= 256 && end <= treePageBytes)) throw damaged()
    page.copy(this.#key, shared, restAt, restAt + rest)
    this.#keyLength = shared + rest
    this.#valueAt = restAt + rest
    this.#at = end
    return true
  }

  /** Below 0 where this key comes before the other one. */
  compare(other: Buffer): number {
    return this.#key.compare(other, 0, other.length, 0, this.#keyLength)
  }

  key(): Buffer {
    return Buffer.from(this.#key.subarray(0, this.#keyLength))
  }

  value(): Buffer {
    return this.#page.subarray(this.#valueAt, this.#at)
  }

  #length(): number {
    const low = this.#page[this.#at++]!
    return low < 128 ? low : (low & 127) | (this.#page[this.#at++]! << 7)
  }
}
