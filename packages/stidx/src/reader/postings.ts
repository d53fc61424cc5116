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

/** The record numbers of one block of a list with impacts; good until the next block is decoded. */
export function recordsOfBlock(list: PostingList, block: number, records: number): Uint32Array {
  const n = Math.min(postingsPerBlock, list.count - block * postingsPerBlock)
  const at = blockStart(list, block) + n + ((n + 1) >> 1)
  decode(list.bytes, at, n, block === 0 ? -1 : lastOfBlock(list.bytes, block - 1), records)
  return numbers
}

/** Looks up records in a list with impacts; those asked in rising order are found in one walk through its blocks. */
export class PostingLookUp {
  readonly #list: PostingList
  /** The block that is walked through, and its last record. */
  #block = -1
  #last = -1
  /** The record that was reached, and where the next one's bytes are. */
  #number = -1
  #at = 0
  /** Where that byte would be if this were the first posting of the block. */
  #base = 0

  constructor(list: PostingList) {
    this.#list = list
  }

  /** Impact << 4 | fields (bits); 0: the list does not have the record. */
  find(record: number): number {
    const isAhead = record > this.#number && record <= this.#last
    if (!isAhead && !this.#enter(record)) return 0
    const { bytes, count } = this.#list
    let at = this.#at
    let base = this.#base
    let number = this.#number
    while (number < record && at < bytes.length) {
      let delta = bytes[at++]!
      if (delta >= 128) {
        delta &= 127
        for (let shift = 7, byte = 128; byte >= 128; shift += 7) {
          if (shift > 21) throw damagedPostings()
          byte = bytes[at++]!
          delta |= (byte & 127) << shift
          base++
        }
      }
      number += delta + 1
    }
    this.#at = at
    this.#base = base
    this.#number = number
    const i = at - base - 1
    const n = Math.min(postingsPerBlock, count - this.#block * postingsPerBlock)
    if (number !== record || i >= n) return 0
    const start = blockStart(this.#list, this.#block)
    return (bytes[start + i]! << 4) | fieldsOfPosting(bytes, start + n, i)
  }

  /** Goes to the beginning of the block in which the record is, if it is anywhere. */
  #enter(record: number): boolean {
    const { bytes, count } = this.#list
    const blocks = blocksOf(count)
    let low = record > this.#last ? this.#block + 1 : 0
    if (blocks > 1) {
      for (let high = blocks, middle = low; low < high; middle = (low + high) >> 1) {
        if (lastOfBlock(bytes, middle) < record) low = middle + 1
        else high = middle
      }
    }
    if (low >= blocks) return false
    const n = Math.min(postingsPerBlock, count - low * postingsPerBlock)
    this.#block = low
    this.#last = blocks > 1 ? lastOfBlock(bytes, low) : Number.POSITIVE_INFINITY
    this.#number = low === 0 ? -1 : lastOfBlock(bytes, low - 1)
    this.#base = blockStart(this.#list, low) + n + ((n + 1) >> 1)
    this.#at = this.#base
    return true
  }
}

export function blocksOf(count: number): number {
  return Math.ceil(count / postingsPerBlock)
}

/** The last record of a block, in a list with more than one block. */
export function lastOfBlock(bytes: Buffer, block: number): number {
  return bytes.readUInt32LE(block * skipEntryBytes)
}

/** The highest impact in the block; of a list with more than one. */
export function impactOfBlock(bytes: Buffer, block: number): number {
  return bytes[block * skipEntryBytes + 8]!
}

/** Where the bytes of a block begin; for the number of blocks, where the list ends. */
export function blockStart({ bytes, count }: PostingList, block: number): number {
  const start = skipBytes(count)
  return block === 0 ? start : start + bytes.readUInt32LE((block - 1) * skipEntryBytes + 4)
}

/** Four bits a posting, the first in the low half. */
export function fieldsOfPosting(bytes: Buffer, fieldsAt: number, i: number): number {
  return (bytes[fieldsAt + (i >> 1)]! >> ((i & 1) << 2)) & 15
}

/** Bytes before the first block: lists of more than one block begin with an entry for each. */
export function skipBytes(count: number): number {
  return count > postingsPerBlock ? blocksOf(count) * skipEntryBytes : 0
}

export function damagedPostings(): Error {
  return badIndex('is damaged (postings)')
}
