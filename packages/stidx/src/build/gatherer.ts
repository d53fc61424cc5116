/** Joins the lists of one term from all runs, under the record numbers that the index will have. */

import { postingsPerBlock } from '../format.ts'
import { ByteWriter } from './byte-writer.ts'
import { replaced } from './catalogue.ts'
import type { Impacts } from './impacts.ts'
import type { MergedTerm, RunList } from './merge.ts'
import { packScore } from './posting-list.ts'
import { fieldsOf } from './postings.ts'

/** Where more than one record of this number has the term, a map of bits puts them into order faster than a sort. */
const bitsPerRecordMax = 256
/** Where the records of a term have more bytes together, it has positions: a phrase never reads more text than this. */
const textBytesMax = 1 << 18

export class Gatherer {
  /** Scores of the term gathered last, by record. */
  readonly scores: Uint16Array
  /** Whether that term gets positions: its records are many, or large. */
  hasPositions = false
  readonly #numberOf: Uint32Array
  readonly #bytesOf: Uint32Array
  readonly #bytesMax: number
  readonly #impacts: Impacts
  readonly #bits: Uint32Array
  #records = new Uint32Array(1 << 10)
  /** Positions as the runs have them, and from where to where those of a record are. */
  #isGathering = false
  readonly #gathered = new ByteWriter(1 << 16)
  readonly #starts: Uint32Array
  readonly #ends: Uint32Array
  readonly #positions = new ByteWriter(1 << 16)

  /** `bytesOf`: how large a stored record is, by its number in the index. */
  constructor(numberOf: Uint32Array, bytesOf: Uint32Array, impacts: Impacts) {
    this.#numberOf = numberOf
    this.#bytesOf = bytesOf
    this.#bytesMax = bytesOf.reduce((most, bytes) => Math.max(most, bytes), 0)
    this.#impacts = impacts
    this.scores = new Uint16Array(numberOf.length)
    this.#starts = new Uint32Array(numberOf.length)
    this.#ends = new Uint32Array(numberOf.length)
    this.#bits = new Uint32Array((numberOf.length >>> 5) + 1)
  }

  /** By rising number; valid until the next call. */
  gather(term: MergedTerm, scored: boolean): Uint32Array {
    if (term.count > this.#records.length) this.#records = new Uint32Array(Math.ceil(term.count * 1.2))
    this.#isGathering = scored && term.count > postingsPerBlock
    const records = this.#readLists(term, scored)
    this.hasPositions = scored && (records.length > postingsPerBlock || this.#isMuchText(records))
    if (this.hasPositions && !this.#isGathering) {
      this.#isGathering = true
      this.#readLists(term, scored)
    }
    if (!isRising(records)) this.#sort(records)
    return records
  }

  #readLists(term: MergedTerm, scored: boolean): Uint32Array {
    this.#gathered.length = 0
    let count = 0
    for (const list of term.lists) count = this.#readList(list, count, scored)
    return this.#records.subarray(0, count)
  }

  #isMuchText(records: Uint32Array): boolean {
    if (records.length * this.#bytesMax <= textBytesMax) return false
    let bytes = 0
    for (let i = 0; i < records.length; i++) bytes += this.#bytesOf[records[i]!]!
    return bytes > textBytesMax
  }

  #readList(list: RunList, countBefore: number, scored: boolean): number {
    const { bytes, positions } = list
    const records = this.#records
    const gatheredAt = this.#gathered.length
    if (this.#isGathering) this.#gathered.append(positions)
    let positionsAt = 0
    let count = countBefore
    let at = 0
    let record = -1
    for (let i = 0; i < list.count; i++) {
      let byte = bytes[at++]!
      let distance = byte & 127
      for (let shift = 7; byte > 127; shift += 7) {
        byte = bytes[at++]!
        distance |= (byte & 127) << shift
      }
      record += distance + 1
      const fields = bytes[at++]!
      let frequencies = 0
      for (let rest = fields & 15, shift = 0; rest !== 0; rest >>= 1, shift += 8) {
        if (rest & 1) frequencies |= (fields & 16 ? 1 : bytes[at++]!) << shift
      }
      const number = this.#numberOf[record]!
      if (this.#isGathering) {
        const end = endOfGroups(positions, positionsAt, groupsOf[fields & 15]!)
        if (number !== replaced) {
          this.#starts[number] = gatheredAt + positionsAt
          this.#ends[number] = gatheredAt + end
        }
        positionsAt = end
      }
      if (number === replaced) continue
      records[count++] = number
      if (scored) {
        this.scores[number] = packScore(this.#impacts.impactOf(record, frequencies), fieldsOf(frequencies))
      }
    }
    return count
  }

  /** Those of the records of a term that has any, in their order; valid until the next call. */
  positionsOf(records: Uint32Array): Buffer {
    const positions = this.#positions
    const { bytes: from, length } = this.#gathered
    positions.length = 0
    positions.reserve(length)
    const { bytes } = positions
    let to = 0
    for (let i = 0; i < records.length; i++) {
      const end = this.#ends[records[i]!]!
      for (let at = this.#starts[records[i]!]!; at < end; at++) bytes[to++] = from[at]!
    }
    positions.length = to
    return positions.written()
  }

  #sort(records: Uint32Array): void {
    if (records.length * bitsPerRecordMax < this.scores.length) {
      records.sort()
      return
    }
    const bits = this.#bits
    for (let i = 0; i < records.length; i++) bits[records[i]! >>> 5]! |= 1 << (records[i]! & 31)
    for (let word = 0, count = 0; word < bits.length; word++) {
      for (let rest = bits[word]!; rest !== 0; rest &= rest - 1) {
        records[count++] = (word << 5) + 31 - Math.clz32(rest & -rest)
      }
      bits[word] = 0
    }
  }
}

/** How many fields these bits name: a record has a group of positions for each. */
const groupsOf = Uint8Array.from({ length: 16 }, (_, fields) =>
  [1, 2, 4, 8].reduce((sum, bit) => sum + (fields & bit ? 1 : 0), 0),
)

/** Where the groups of positions end that begin here: the lowest bit says that an entry begins one. */
function endOfGroups(bytes: Buffer, start: number, groups: number): number {
  let at = start
  for (let left = groups; at < bytes.length; ) {
    if (bytes[at]! & 1 && left-- === 0) break
    while (bytes[at++]! > 127);
  }
  return at
}

function isRising(numbers: Uint32Array): boolean {
  for (let i = 1; i < numbers.length; i++) if (numbers[i]! < numbers[i - 1]!) return false
  return true
}
