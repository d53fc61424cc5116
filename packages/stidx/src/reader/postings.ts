/** Decodes posting lists: which records hold a term, how much each counts for it, and in which fields they hold it. */

import { badIndex } from '../fault.ts'
import { postingsPerBlock, skipEntryBytes } from '../format.ts'

/** A posting list as it is in the file. */
export interface PostingList {
  bytes: Buffer
  /** Records in it. */
  count: number
  /** False for values of fields: their lists are record numbers alone. */
  hasImpacts: boolean
}

/** The record numbers of the block that was decoded last: one list is read at a time. */
const numbers = new Uint32Array(postingsPerBlock)

/** Reads a list block by block: `next`, then `numbers` and the bytes of the list at `impactsAt` and `fieldsAt`. */
export class PostingBlocks {
  readonly numbers = numbers
  impactsAt = 0
  fieldsAt = 0
  readonly #bytes: Buffer
  readonly #records: number
  readonly #hasImpacts: boolean
  #at: number
  #left: number
  #previous = -1

  /** `records` is the number of records of the index. */
  constructor({ bytes, count, hasImpacts }: PostingList, records: number) {
    if (count === 0) throw damagedPostings()
    this.#bytes = bytes
    this.#records = records
    this.#hasImpacts = hasImpacts
    this.#left = count
    this.#at = skipBytes(count)
  }

  /** Postings in the next block; 0 at the end. @throws SearchFault where the list breaks the rules of the format. */
  next(): number {
    if (this.#left === 0) {
      if (this.#at !== this.#bytes.length) throw damagedPostings()
      return 0
    }
    const n = Math.min(this.#left, postingsPerBlock)
    this.impactsAt = this.#at
    this.fieldsAt = this.#at + n
    const at = this.#hasImpacts ? this.fieldsAt + ((n + 1) >> 1) : this.#at
    this.#at = decode(this.#bytes, at, n, this.#previous, this.#records)
    this.#previous = numbers[n - 1]!
    this.#left -= n
    return n
  }
}

/** Puts the `n` record numbers that follow `record` into `numbers`; returns where their bytes end. */
function decode(bytes: Buffer, start: number, n: number, record: number, records: number): number {
  let at = start
  let number = record
  for (let i = 0; i < n; i++) {
    let delta = bytes[at++]!
    if (delta >= 128) {
      delta &= 127
      let shift = 7
      let byte: number
      do {
        if (shift > 21) throw damagedPostings()
        byte = bytes[at++]!
        delta |= (byte & 127) << shift
        shift += 7
      } while (byte >= 128)
    }
    number += delta + 1
    // Beyond the list there are no numbers, and this is false, too.
    if (!(number < records)) throw damagedPostings()
    numbers[i] = number
  }
  return at
}

/** Fields (bits) in which the record holds the term; 0: not at all. The list has been read and found sound. */
export function fieldsIn({ bytes, count }: PostingList, record: number, records: number): number {
  let at = skipBytes(count)
  let left = count
  let previous = -1
  if (at > 0) {
    let entry = 0
    let blockAt = 0
    while (bytes.readUInt32LE(entry) < record) {
      previous = bytes.readUInt32LE(entry)
      blockAt = bytes.readUInt32LE(entry + 4)
      entry += skipEntryBytes
      left -= postingsPerBlock
      if (entry >= at) return 0
    }
    at += blockAt
  }
  const n = Math.min(left, postingsPerBlock)
  const fieldsAt = at + n
  decode(bytes, fieldsAt + ((n + 1) >> 1), n, previous, records)
  const i = numbers.subarray(0, n).indexOf(record)
  return i === -1 ? 0 : fieldsOfPosting(bytes, fieldsAt, i)
}

/** Four bits a posting, the first in the low half. */
export function fieldsOfPosting(bytes: Buffer, fieldsAt: number, i: number): number {
  return (bytes[fieldsAt + (i >> 1)]! >> ((i & 1) << 2)) & 15
}

/** Bytes before the first block: lists of more than one block begin with an entry for each. */
export function skipBytes(count: number): number {
  return count > postingsPerBlock ? Math.ceil(count / postingsPerBlock) * skipEntryBytes : 0
}

export function damagedPostings(): Error {
  return badIndex('is damaged (postings)')
}
