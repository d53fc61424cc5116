/** Joins the lists of one term from all runs, under the record numbers that the index will have. */

import { replaced } from './catalogue.ts'
import type { Impacts } from './impacts.ts'
import type { MergedTerm } from './merge.ts'
import { packScore } from './posting-list.ts'
import { fieldsOf } from './postings.ts'

/** Where more than one record of this number has the term, a map of bits puts them into order faster than a sort. */
const bitsPerRecordMax = 256

export class Gatherer {
  /** Of the term gathered last, by record. */
  readonly scores: Uint16Array
  readonly #numberOf: Uint32Array
  readonly #impacts: Impacts
  readonly #bits: Uint32Array
  #records = new Uint32Array(1 << 10)

  constructor(numberOf: Uint32Array, impacts: Impacts) {
    this.#numberOf = numberOf
    this.#impacts = impacts
    this.scores = new Uint16Array(numberOf.length)
    this.#bits = new Uint32Array((numberOf.length >>> 5) + 1)
  }

  /** By rising number; valid until the next call. */
  gather(term: MergedTerm, scored: boolean): Uint32Array {
    if (term.count > this.#records.length) this.#records = new Uint32Array(Math.ceil(term.count * 1.2))
    let count = 0
    for (const list of term.lists) count = this.#readList(list, count, scored)
    const records = this.#records.subarray(0, count)
    if (!isRising(records)) this.#sort(records)
    return records
  }

  #readList(list: MergedTerm['lists'][number], countBefore: number, scored: boolean): number {
    const { bytes } = list
    const records = this.#records
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
      if (number === replaced) continue
      records[count++] = number
      if (scored) {
        this.scores[number] = packScore(this.#impacts.impactOf(record, frequencies), fieldsOf(frequencies))
      }
    }
    return count
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

function isRising(numbers: Uint32Array): boolean {
  for (let i = 1; i < numbers.length; i++) if (numbers[i]! < numbers[i - 1]!) return false
  return true
}
