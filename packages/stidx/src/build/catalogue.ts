/** Keeps the id, age, keys and lengths of every record while an index is built, in typed memory. */

import type { Analyzer, SearchRecord } from '../contract.ts'
import { SearchFault } from '../fault.ts'
import { keyKinds, recordsMax } from '../format.ts'
import { crc32OfText } from './checksum.ts'
import { grown } from './growing.ts'

const idChunkBytes = 1 << 20
/** So that a place has 32 bits. */
const idChunksMax = 4096
const idBytesMax = 2048
/** A record that was replaced by a later one has this number in the order. */
export const replaced = 0xffffffff

export interface Keys {
  id: number
  slug: number | null
  title: number | null
}

/** Grows by one entry a record; records are numbered as they come. */
export class Catalogue {
  count = 0
  duplicates = 0
  /** Where the record begins in the file of records. */
  #starts = new Float64Array(1 << 12)
  #updatedAtMs = new Float64Array(1 << 12)
  #isReplaced = new Uint8Array(1 << 12)
  /** Hashes of id, slug, title; and which of slug (1) and title (2) there are. */
  #keys = new Uint32Array(3 << 12)
  #has = new Uint8Array(1 << 12)
  /** Number of words, four fields a record, each at most 65535. */
  #lengths = new Uint16Array(4 << 12)
  readonly #ids = new IdStore()
  #slots = new Uint32Array(1 << 13)

  /** Takes the next record in; one with the same id from before is replaced. Returns its number. */
  add(id: string, record: SearchRecord, start: number, analyzer: Analyzer): number {
    const number = this.count
    if (number >= recordsMax)
      throw new SearchFault('bad_input', `an index holds at most ${recordsMax} records`)
    this.count++
    this.#starts = grown(this.#starts, number)
    this.#updatedAtMs = grown(this.#updatedAtMs, number)
    this.#isReplaced = grown(this.#isReplaced, number)
    this.#has = grown(this.#has, number)
    this.#keys = grown(this.#keys, number * 3 + 2)
    this.#lengths = grown(this.#lengths, number * 4 + 3)
    this.#starts[number] = start
    this.#updatedAtMs[number] = record.updatedAtMs
    this.#keys[number * 3] = hashOfKey('id', id)
    this.#ids.add(id)
    this.#setKey(number, 1, 'slug', analyzer.fold(record.slug))
    this.#setKey(number, 2, 'title', analyzer.fold(record.title))
    this.#place(number)
    return number
  }

  setWords(number: number, field: number, count: number): void {
    this.#lengths[number * 4 + field] = Math.min(count, 0xffff)
  }

  lengthOf(number: number, field: number): number {
    return this.#lengths[number * 4 + field]!
  }

  /** Four fields a record; valid until the next record is added. */
  lengths(): Uint16Array {
    return this.#lengths
  }

  isReplaced(number: number): boolean {
    return this.#isReplaced[number] === 1
  }

  /** Length of a record as it is stored; `allBytes` is the length of all of them. */
  bytesOf(number: number, allBytes: number): number {
    const end = number + 1 < this.count ? this.#starts[number + 1]! : allBytes
    return end - this.#starts[number]!
  }

  keysOf(number: number): Keys {
    const has = this.#has[number]!
    return {
      id: this.#keys[number * 3]!,
      slug: has & 1 ? this.#keys[number * 3 + 1]! : null,
      title: has & 2 ? this.#keys[number * 3 + 2]! : null,
    }
  }

  /** Numbers of the records that stay: newest first, equally old ones by id. */
  order(): Uint32Array {
    const staying = new Uint32Array(this.count - this.duplicates)
    let count = 0
    for (let number = 0; number < this.count; number++)
      if (!this.isReplaced(number)) staying[count++] = number
    return staying.sort((a, b) => this.#updatedAtMs[b]! - this.#updatedAtMs[a]! || this.#ids.compare(a, b))
  }

  #setKey(number: number, place: 1 | 2, kind: 'slug' | 'title', folded: string): void {
    this.#has[number]! &= ~place
    if (folded === '') return
    this.#has[number]! |= place
    this.#keys[number * 3 + place] = hashOfKey(kind, folded)
  }

  /** Open addressing, at most half full; a slot holds the number + 1 of the newest record of an id. */
  #place(number: number): void {
    if (this.count * 2 > this.#slots.length) this.#growSlots()
    const slot = this.#slotOf(number)
    const before = this.#slots[slot]!
    if (before !== 0) {
      this.#isReplaced[before - 1] = 1
      this.duplicates++
    }
    this.#slots[slot] = number + 1
  }

  #slotOf(number: number): number {
    const mask = this.#slots.length - 1
    const hash = this.#keys[number * 3]!
    let slot = hash & mask
    while (this.#slots[slot] !== 0) {
      const other = this.#slots[slot]! - 1
      if (this.#keys[other * 3] === hash && this.#ids.compare(other, number) === 0) break
      slot = (slot + 1) & mask
    }
    return slot
  }

  #growSlots(): void {
    const old = this.#slots
    this.#slots = new Uint32Array(old.length * 2)
    for (const entry of old) if (entry !== 0) this.#slots[this.#slotOf(entry - 1)] = entry
  }
}

/** Where a key is found in the hash table: CRC-32 of the letter of its kind and its text. */
function hashOfKey(kind: keyof typeof keyKinds, text: string): number {
  return crc32OfText(keyKinds[kind] + text)
}

/** The ids as bytes, in pieces of one length: an id lies in one piece, so its place is one number of 32 bits. */
class IdStore {
  readonly #chunks: Buffer[] = []
  #filled = idChunkBytes
  #places = new Uint32Array(1 << 12)
  /** An id has at most 2048 bytes. */
  #lengths = new Uint16Array(1 << 12)
  #count = 0

  add(id: string): void {
    const bytes = Buffer.from(id, 'utf8')
    if (bytes.length > idBytesMax) throw new SearchFault('bad_input', `an id has at most ${idBytesMax} bytes`)
    if (this.#filled + bytes.length > idChunkBytes) {
      if (this.#chunks.length === idChunksMax) throw new SearchFault('bad_input', 'the ids have over 4 GiB')
      this.#chunks.push(Buffer.allocUnsafe(idChunkBytes))
      this.#filled = 0
    }
    const number = this.#count++
    this.#places = grown(this.#places, number)
    this.#lengths = grown(this.#lengths, number)
    this.#chunks.at(-1)!.set(bytes, this.#filled)
    this.#places[number] = (this.#chunks.length - 1) * idChunkBytes + this.#filled
    this.#lengths[number] = bytes.length
    this.#filled += bytes.length
  }

  /** By their bytes. */
  compare(a: number, b: number): number {
    const startA = this.#places[a]! % idChunkBytes
    const startB = this.#places[b]! % idChunkBytes
    const [endA, endB] = [startA + this.#lengths[a]!, startB + this.#lengths[b]!]
    return this.#chunkOf(a).compare(this.#chunkOf(b), startB, endB, startA, endA)
  }

  #chunkOf(number: number): Buffer {
    return this.#chunks[Math.floor(this.#places[number]! / idChunkBytes)]!
  }
}
