/** Writes the tree of terms as pages of equal size from keys in order: the leaves first, the root last. */

import { treePageBytes, treePageHeadBytes } from '../format.ts'
import { ByteWriter } from './byte-writer.ts'
import { placedSum } from './checksum.ts'
import type { FileSink } from './file-sink.ts'

/** So that a place in the tree fits into 32 bits: page << 8 | index. */
const entriesPerPageMax = 255
const pagesMax = 2 ** 24

interface Child {
  /** First key of the page, one character a byte. */
  key: string
  page: number
}

export class TreeWriter {
  readonly #sink: Pick<FileSink, 'write'>
  readonly #section: 'tree' | 'beginnings'
  readonly #page = new ByteWriter(treePageBytes)
  readonly #entry = new ByteWriter(512)
  #children: Child[] = []
  #key = ''
  #entries = 0
  pages = 0

  constructor(sink: Pick<FileSink, 'write'>, section: 'tree' | 'beginnings') {
    this.#sink = sink
    this.#section = section
    this.#startPage()
  }

  /** Keys are unique and rise. Returns the place of the entry: page << 8 | index. */
  add(key: string, value: Uint8Array): number {
    this.#append(key, value, 0)
    return this.pages * 256 + this.#entries - 1
  }

  /** Writes the last leaf and the pages above the leaves; returns the number of the root. */
  finish(): number {
    if (this.#entries > 0) this.#writePage(0)
    for (let level = 1; this.#children.length > 1; level++) {
      const below = this.#children
      this.#children = []
      const number = new ByteWriter(8)
      for (const { key, page } of below) {
        number.length = 0
        number.u32(page)
        this.#append(key, number.written(), level)
      }
      this.#writePage(level)
    }
    return Math.max(this.pages - 1, 0)
  }

  #append(key: string, value: Uint8Array, level: number): void {
    this.#encode(key, value, this.#entries === 0 ? '' : this.#key)
    const isFull =
      this.#entries === entriesPerPageMax || this.#page.length + this.#entry.length > treePageBytes
    if (isFull) {
      this.#writePage(level)
      this.#encode(key, value, '')
    }
    if (this.#entries === 0) this.#children.push({ key, page: this.pages })
    this.#page.append(this.#entry.written())
    this.#entries++
    this.#key = key
  }

  /** {varint shared with the key before, varint length of the rest, u8 length of the value, the rest, value}. */
  #encode(key: string, value: Uint8Array, before: string): void {
    let shared = 0
    const most = Math.min(key.length, before.length)
    while (shared < most && key.charCodeAt(shared) === before.charCodeAt(shared)) shared++
    this.#entry.length = 0
    this.#entry.varint(shared)
    this.#entry.varint(key.length - shared)
    this.#entry.u8(value.length)
    this.#entry.latin1(key.slice(shared))
    this.#entry.append(value)
  }

  #startPage(): void {
    this.#page.length = treePageHeadBytes
    this.#entries = 0
  }

  #writePage(level: number): void {
    if (this.pages >= pagesMax) throw new RangeError('the tree of terms has too many pages')
    const bytes = this.#page.bytes.subarray(0, treePageBytes)
    bytes.fill(0, this.#page.length)
    bytes.writeUInt16LE(this.#entries, 4)
    bytes.writeUInt16LE(level, 6)
    bytes.writeUInt32LE(placedSum(bytes.subarray(4), this.#section, this.pages), 0)
    this.#sink.write(bytes)
    this.pages++
    this.#startPage()
  }
}
