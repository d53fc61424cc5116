/** Collects the postings of all terms while records are read, as bytes that grow. */

import type { ByteWriter } from './byte-writer.ts'
import { grown } from './growing.ts'

/** The state of a term in adjacent numbers, so that an occurrence touches one place in memory. */
const stateSize = 13
/** The record met last, or none; its frequencies, a byte a field; the record before it; postings in slices. */
const recordAt = 0
const frequenciesAt = 1
const beforeAt = 2
const countAt = 3
/** The position met last. */
const positionAt = 4
/** The chains of slices of its postings and of its positions. */
const postingsAt = 5
const positionsAt = 9
/** A chain: the next byte, the end and the start (or none) of the slice being filled; and the first slice. */
const writeAt = 0
const endAt = 1
const sliceAt = 2
const firstAt = 3
const none = -1

/** A slice: u32 place of the next one, u32 bytes used in it, bytes. Sizes are multiples of 4. */
const sliceHeadBytes = 8
const sliceBytesMin = 20
const sliceBytesMax = 512
/** Distance, fields, four frequencies. */
const postingBytesMax = 9
/** A field has fewer than 2^24 words: no line of the input is longer. */
const entryBytesMax = 4

/** Bit f: the frequency of field f, in byte f, is not 0. */
export function fieldsOf(frequencies: number): number {
  return (
    (frequencies & 0xff ? 1 : 0) |
    (frequencies & 0xff00 ? 2 : 0) |
    (frequencies & 0xff0000 ? 4 : 0) |
    (frequencies & 0xff000000 ? 8 : 0)
  )
}

/**
 * Lists grow side by side in slices of one stretch of bytes. A list is, for each record by rising number: varint of the
 * distance to the one before, a byte of fields (bit 4: every frequency is 1), else the frequencies of these fields. Its
 * positions are written as the index file has them (`positions.ts`).
 */
export class Postings {
  /** Bytes of all slices. */
  filled = 0
  #states = new Int32Array(stateSize << 12)
  #bytes = Buffer.allocUnsafeSlow(1 << 18)
  #words = new Uint32Array(this.#bytes.buffer)

  /** Before the first posting of a term. */
  begin(term: number): void {
    const at = term * stateSize
    this.#states = grown(this.#states, at + stateSize - 1)
    this.#states.fill(0, at, at + stateSize)
    for (const place of [recordAt, beforeAt, postingsAt + sliceAt, positionsAt + sliceAt]) {
      this.#states[at + place] = none
    }
  }

  /** The term as a value of a record: it has neither frequency nor position. */
  addValue(term: number, record: number): void {
    const at = term * stateSize
    if (this.#states[at + recordAt] !== record) this.#meet(at, record, 0)
  }

  /** One more time the term in a field (0 to 3) of a record, at a position that is not below the one before. */
  add(term: number, record: number, field: number, position: number): void {
    const states = this.#states
    const at = term * stateSize
    const shift = field * 8
    if (states[at + recordAt] !== record) {
      this.#meet(at, record, 1 << shift)
      this.#putPosition(at, position, position * 2 + 1)
      return
    }
    const frequencies = states[at + frequenciesAt]!
    const frequency = (frequencies >>> shift) & 255
    if (frequency < 255) states[at + frequenciesAt] = frequencies + (1 << shift)
    if (frequency === 0) this.#putPosition(at, position, position * 2 + 1)
    else this.#putPosition(at, position, (position - states[at + positionAt]!) * 2)
  }

  /** Writes the whole list; returns the number of its postings. */
  writeList(term: number, out: ByteWriter): number {
    const states = this.#states
    const at = term * stateSize
    this.#writeChain(at + postingsAt, out)
    if (states[at + recordAt] === none) return states[at + countAt]!
    out.reserve(postingBytesMax)
    out.length = encode(out.bytes, out.length, this.#distanceOf(at), states[at + frequenciesAt]!)
    return states[at + countAt]! + 1
  }

  /** Writes the positions of the whole list. */
  writePositions(term: number, out: ByteWriter): void {
    this.#writeChain(term * stateSize + positionsAt, out)
  }

  forget(): void {
    this.filled = 0
  }

  #meet(at: number, record: number, frequencies: number): void {
    if (this.#states[at + recordAt] !== none) this.#putMet(at)
    this.#states[at + recordAt] = record
    this.#states[at + frequenciesAt] = frequencies
  }

  /** The posting of the record met last. */
  #putMet(at: number): void {
    const states = this.#states
    const chain = at + postingsAt
    if (states[chain + endAt]! - states[chain + writeAt]! < postingBytesMax) this.#extend(chain)
    const from = states[chain + writeAt]!
    states[chain + writeAt] = encode(this.#bytes, from, this.#distanceOf(at), states[at + frequenciesAt]!)
    states[at + beforeAt] = states[at + recordAt]!
    states[at + countAt]!++
  }

  #putPosition(at: number, position: number, entry: number): void {
    const states = this.#states
    const chain = at + positionsAt
    if (states[chain + endAt]! - states[chain + writeAt]! < entryBytesMax) this.#extend(chain)
    const bytes = this.#bytes
    let to = states[chain + writeAt]!
    let rest = entry
    for (; rest > 127; rest >>>= 7) bytes[to++] = (rest & 127) | 128
    bytes[to++] = rest
    states[chain + writeAt] = to
    states[at + positionAt] = position
  }

  #distanceOf(at: number): number {
    return this.#states[at + recordAt]! - this.#states[at + beforeAt]! - 1
  }

  #writeChain(chain: number, out: ByteWriter): void {
    const states = this.#states
    const last = states[chain + sliceAt]!
    if (last === none) return
    this.#words[(last >> 2) + 1] = states[chain + writeAt]! - last
    for (let slice = states[chain + firstAt]!; ; slice = this.#words[slice >> 2]!) {
      out.append(this.#bytes.subarray(slice + sliceHeadBytes, slice + this.#words[(slice >> 2) + 1]!))
      if (slice === last) return
    }
  }

  /** A further slice, larger than the one before. */
  #extend(chain: number): void {
    const states = this.#states
    const before = states[chain + sliceAt]!
    const slice = this.filled
    let size = sliceBytesMin
    if (before === none) {
      states[chain + firstAt] = slice
    } else {
      size = Math.min(sliceBytesMax, (states[chain + endAt]! - before) * 2 - sliceHeadBytes)
      this.#words[before >> 2] = slice
      this.#words[(before >> 2) + 1] = states[chain + writeAt]! - before
    }
    this.filled += size
    if (this.filled > this.#bytes.length) this.#grow()
    states[chain + sliceAt] = slice
    states[chain + writeAt] = slice + sliceHeadBytes
    states[chain + endAt] = slice + size
  }

  #grow(): void {
    const larger = Buffer.allocUnsafeSlow(this.#bytes.length * 2)
    larger.set(this.#bytes)
    this.#bytes = larger
    this.#words = new Uint32Array(larger.buffer)
  }
}

/** Returns where the next posting goes. */
function encode(bytes: Uint8Array, from: number, distance: number, frequencies: number): number {
  let at = from
  let rest = distance
  for (; rest > 127; rest >>>= 7) bytes[at++] = (rest & 127) | 128
  bytes[at++] = rest
  const allOnes = (frequencies & ~0x01010101) === 0
  bytes[at++] = fieldsOf(frequencies) | (allOnes ? 16 : 0)
  if (allOnes) return at
  for (let shift = 0; shift < 32; shift += 8) {
    const frequency = (frequencies >>> shift) & 255
    if (frequency > 0) bytes[at++] = frequency
  }
  return at
}
