/** Joins the posting lists of several terms to those of one word: the best impact and all fields of each record. */

import { fieldsOfPosting, PostingBlocks, type PostingList } from '../reader/postings.ts'
import { type Ranked, TopRecords } from './top-records.ts'

/** Records that are looked at in one call: see `#addBlock`. */
const stretch = 256

export class Group {
  /** Records that hold the word; the first `count` entries. */
  readonly records: Uint32Array
  count = 0
  /** By record: best impact << 8 | fields. */
  readonly #joined: Uint16Array

  /** `records` is the number of records of the index. */
  constructor(records: number) {
    this.records = new Uint32Array(records)
    this.#joined = new Uint16Array(records)
  }

  add(list: PostingList): void {
    const blocks = new PostingBlocks(list, this.records.length)
    for (let n = blocks.next(); n > 0; n = blocks.next()) this.#addBlock(list.bytes, blocks, n)
  }

  /** All records that hold the word, by rising number. */
  inOrder(): Uint32Array {
    let count = 0
    for (let record = 0; record < this.#joined.length; record++) {
      if (this.#joined[record] !== 0) this.records[count++] = record
    }
    return this.records.subarray(0, count)
  }

  fieldsOf(record: number): number {
    return this.#joined[record]! & 15
  }

  impactOf(record: number): number {
    return this.#joined[record]! >> 8
  }

  /** The best records of this word alone: by falling score, then by rising record. */
  best(limit: number, weight: number): Ranked[] {
    const top = new TopRecords(Math.min(limit, this.count))
    for (let start = 0; start < this.count; start += stretch) {
      this.#addBest(top, weight, start, Math.min(this.count, start + stretch))
    }
    return top.ranked()
  }

  #addBest(top: TopRecords, weight: number, start: number, end: number): void {
    for (let i = start; i < end; i++) {
      const record = this.records[i]!
      const score = this.impactOf(record) * weight
      if (score >= top.floor) top.add(record, score)
    }
  }

  clear(): void {
    for (let i = 0; i < this.count; i++) this.#joined[this.records[i]!] = 0
    this.count = 0
  }

  /** A function for each block is called often, so that V8 compiles it early in a process that lives for one search. */
  #addBlock(bytes: Buffer, { numbers, impactsAt, fieldsAt }: PostingBlocks, n: number): void {
    const joined = this.#joined
    const records = this.records
    let count = this.count
    for (let i = 0; i < n; i++) {
      const record = numbers[i]!
      const before = joined[record]!
      if (before === 0) records[count++] = record
      const impact = bytes[impactsAt + i]!
      const fields = (before & 15) | fieldsOfPosting(bytes, fieldsAt, i)
      joined[record] = (impact << 8 > before ? impact << 8 : before & 0xff00) | fields
    }
    // A damaged list with neither impact nor fields would let a record come twice.
    this.count = Math.min(count, records.length)
  }
}
