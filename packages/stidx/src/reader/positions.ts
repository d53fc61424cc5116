/**
 * Reads where in its fields each record of a posting list holds the term. A position is counted in words from the
 * beginning of its field. The function for a block of postings is called often, so that V8 compiles it early in a
 * process that lives for one search; everything is in one loop there, because most of the time of a phrase goes there.
 */

import { badIndex } from '../fault.ts'
import { positionsHeadBytes, postingsPerBlock, textFields } from '../format.ts'
import type { IndexFile } from './file.ts'
import { fieldsOfPosting, PostingBlocks, type PostingList } from './postings.ts'

/** A place in a record is its field (0 to 3) × 2^24 + the position. */
const fieldShift = 24
/** Behind the last record. */
const noRecord = 2 ** 31 - 1
/** Before all places, those too where a phrase would begin before its field. */
const noPlace = -(2 ** 31)

/** The list of a term with the place of its positions in the section of postings. */
export interface PlacedList extends PostingList {
  positionsAt: number
}

/** How many fields these bits name. */
const fieldCounts = Uint8Array.from({ length: 16 }, (_, bits) =>
  [1, 2, 4, 8].reduce((sum, bit) => sum + (bits & bit ? 1 : 0), 0),
)

/** The state of one block of postings; one list is read at a time. */
const starts = new Int32Array(postingsPerBlock * textFields.length + 1)
const hits = new Int32Array(postingsPerBlock + 1)
const groupOfHit = new Int32Array(postingsPerBlock + 1)

/**
 * Where a phrase would begin, as far as its words are known: records rise, and places within a record. The code for
 * each posting has no branches where nobody could predict them: those would take most of the time.
 */
export class PhrasePlaces {
  readonly #file: IndexFile
  readonly #records: Int32Array
  readonly #places: Int32Array
  readonly #scores: Int32Array
  #count = 0
  /** By record: the first of its places; where that is of another record or behind the last, it has none. */
  readonly #firsts: Uint32Array
  /** While a list is read: its positions, those that come next, how many places were kept. */
  #positions: Buffer
  #at = 0
  #kept = 0

  /**
   * All places of a term that is the word `index` of the phrase; it adds impact × weight to the scores. `firsts` has an
   * entry for each record, whatever is in them, and belongs to this object from here on.
   */
  constructor(file: IndexFile, firsts: Uint32Array, list: PlacedList, index: number, weight: number) {
    this.#file = file
    this.#positions = readPositions(file, list.positionsAt)
    this.#firsts = firsts
    // An entry takes at least one byte; behind the last one is a mark.
    this.#records = new Int32Array(this.#positions.length + 1)
    this.#places = new Int32Array(this.#positions.length + 1)
    this.#scores = new Int32Array(this.#positions.length + 1)
    const blocks = new PostingBlocks(list, file.header.records)
    for (let n = blocks.next(); n > 0; n = blocks.next()) this.#addBlock(list.bytes, blocks, n, index, weight)
    this.#records[this.#count] = noRecord
  }

  /** Keeps those that have a term as the word `index`, too. */
  keep(list: PlacedList, index: number, weight: number): void {
    this.#positions = readPositions(this.#file, list.positionsAt)
    this.#at = 0
    this.#kept = 0
    const blocks = new PostingBlocks(list, this.#file.header.records)
    for (let n = blocks.next(); n > 0; n = blocks.next()) {
      const found = this.#findHits(list.bytes, blocks, n)
      this.#keepHits(list.bytes, blocks, found, index, weight)
    }
    this.#count = this.#kept
    this.#records[this.#count] = noRecord
  }

  /** Sets the bits of their records. */
  mark(bits: Uint8Array): void {
    for (let i = 0; i < this.#count; i++) {
      const record = this.#records[i]!
      bits[record >> 3]! |= 1 << (record & 7)
    }
  }

  /** Visits their records and scores. */
  each(visit: (record: number, score: number) => void): void {
    for (let i = 0; i < this.#count; i++) {
      if (i === 0 || this.#records[i] !== this.#records[i - 1]) visit(this.#records[i]!, this.#scores[i]!)
    }
  }

  #addBlock(
    list: Buffer,
    { numbers, impactsAt, fieldsAt }: PostingBlocks,
    n: number,
    index: number,
    weight: number,
  ): void {
    const bytes = this.#positions
    const records = this.#records
    const places = this.#places
    const scores = this.#scores
    const firsts = this.#firsts
    const { length } = bytes
    let at = this.#at
    let count = this.#count
    for (let i = 0; i < n; i++) {
      const record = numbers[i]!
      const score = weight * list[impactsAt + i]!
      firsts[record] = count
      for (let left = fieldsOfPosting(list, fieldsAt, i); left !== 0; left &= left - 1) {
        let place = ((31 - Math.clz32(left & -left)) << fieldShift) - index
        do {
          let entry = bytes[at++]!
          if (entry > 127) {
            entry &= 127
            for (let shift = 7, byte = 128; byte > 127 && shift < 28; shift += 7) {
              byte = bytes[at++]!
              entry |= (byte & 127) << shift
            }
          }
          place += entry >> 1
          records[count] = record
          scores[count] = score
          places[count++] = place
          // The lowest bit of an entry's first byte says that a field begins.
        } while (at < length && (bytes[at]! & 1) === 0)
      }
    }
    if (at > length) throw damaged()
    this.#at = at
    this.#count = count
  }

  /** The postings of records that have places go into `hits`; returns how many there are. */
  #findHits(list: Buffer, { numbers, fieldsAt }: PostingBlocks, n: number): number {
    const firsts = this.#firsts
    const records = this.#records
    const count = this.#count
    let found = 0
    let group = 0
    for (let i = 0; i < n; i++) {
      const record = numbers[i]!
      const first = firsts[record]!
      hits[found] = i
      groupOfHit[found] = group
      // 1 where it is below `count` and of this record.
      found += ((first - count) & ((records[first]! ^ record) - 1)) >>> 31
      group += fieldCounts[fieldsOfPosting(list, fieldsAt, i)]!
    }
    this.#findGroups(group)
    return found
  }

  #keepHits(
    list: Buffer,
    { numbers, impactsAt, fieldsAt }: PostingBlocks,
    found: number,
    index: number,
    weight: number,
  ): void {
    const bytes = this.#positions
    const firsts = this.#firsts
    const records = this.#records
    const places = this.#places
    const scores = this.#scores
    let kept = this.#kept
    for (let hit = 0; hit < found; hit++) {
      const i = hits[hit]!
      const record = numbers[i]!
      const fields = fieldsOfPosting(list, fieldsAt, i)
      let next = firsts[record]!
      const score = scores[next]! + weight * list[impactsAt + i]!
      let field = -1
      let at = 0
      let end = 0
      let place = 0
      let reached = noPlace
      firsts[record] = kept
      do {
        const wanted = places[next]! + index
        if (wanted >> fieldShift !== field) {
          field = wanted >> fieldShift
          const group = groupOfHit[hit]! + fieldCounts[fields & ((1 << field) - 1)]!
          at = starts[group]!
          end = fields & (1 << field) ? starts[group + 1]! : at
          place = field << fieldShift
          reached = noPlace
        }
        while (reached < wanted && at < end) {
          let entry = bytes[at++]!
          if (entry > 127) {
            entry &= 127
            for (let shift = 7, byte = 128; byte > 127 && shift < 28; shift += 7) {
              byte = bytes[at++]!
              entry |= (byte & 127) << shift
            }
          }
          place += entry >> 1
          reached = place
        }
        if (reached === wanted) {
          records[kept] = record
          scores[kept] = score
          places[kept++] = wanted - index
        }
        next++
      } while (records[next] === record)
    }
    this.#kept = kept
  }

  /** Puts into `starts` where the positions of the next fields begin, so many of them, and where the last ones end. */
  #findGroups(count: number): void {
    const bytes = this.#positions
    const { length } = bytes
    let at = this.#at
    let group = 0
    let isFirst = 1
    // The highest bit of a byte says that more of its entry follow.
    while (group <= count && at < length) {
      const byte = bytes[at]!
      starts[group] = at++
      group += isFirst & byte
      isFirst = (byte >> 7) ^ 1
    }
    if (group < count) throw damaged()
    if (group === count) starts[count] = length
    this.#at = starts[count]!
  }
}

function readPositions(file: IndexFile, at: number): Buffer {
  const head = file.read('postings', at, positionsHeadBytes)
  const bytes = file.read('postings', at + positionsHeadBytes, head.readUInt32LE(0))
  if (!file.isSound(bytes, head.readUInt32LE(4), 'postings', at)) throw damaged()
  return bytes
}

function damaged(): Error {
  return badIndex('is damaged (positions)')
}
