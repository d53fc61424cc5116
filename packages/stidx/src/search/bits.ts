/** Sets of records as arrays of bits: filled from posting lists, intersected, and listed. */

import { fieldsOfPosting, PostingBlocks, type PostingList } from '../reader/postings.ts'

export function emptyBits(records: number): Uint8Array {
  return new Uint8Array(Math.ceil(records / 8))
}

/** Sets the bits of the records in the list; with `fields` (bits), of those that have the term in one of them. */
export function markList(bits: Uint8Array, list: PostingList, fields: number, records: number): void {
  const blocks = new PostingBlocks(list, records)
  const { numbers } = blocks
  for (let n = blocks.next(); n > 0; n = blocks.next()) {
    for (let i = 0; i < n; i++) {
      if (fields !== 0 && (fieldsOfPosting(list.bytes, blocks.fieldsAt, i) & fields) === 0) continue
      const record = numbers[i]!
      bits[record >> 3]! |= 1 << (record & 7)
    }
  }
}

/** Clears the bits that are not set in `other`. */
export function intersect(bits: Uint8Array, other: Uint8Array): void {
  for (let i = 0; i < bits.length; i++) bits[i]! &= other[i]!
}

export function hasAny(bits: Uint8Array): boolean {
  return bits.some((byte) => byte !== 0)
}

/** The numbers of the first `limit` records whose bit is set, and how many there are in all. */
export function listed(bits: Uint8Array, limit: number): { first: number[]; total: number } {
  const first: number[] = []
  let total = 0
  for (let i = 0; i < bits.length; i++) {
    for (let rest = bits[i]!; rest !== 0; rest &= rest - 1) {
      total++
      if (first.length < limit) first.push(i * 8 + 31 - Math.clz32(rest & -rest))
    }
  }
  return { first, total }
}
