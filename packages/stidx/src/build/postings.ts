/** Collects the postings of all terms while records are read, as bytes that grow. */

import type { ByteWriter } from './byte-writer.ts'
import { grown } from './growing.ts'

/** What is known of a term, side by side, so that an occurrence touches one place in memory. */
const stateSize = 8
/** The record met last, or none; its frequencies, a byte a field; the record before it. */
const recordAt = 0
const frequenciesAt = 1
const beforeAt = 2
/** In the slice that is being filled: the next byte, its end, its start; and the first slice. */
const writeAt = 3
const endAt = 4
const sliceAt = 5
const firstAt = 6
/** Postings in slices. */
const countAt = 7
const none = -1

/** A slice: u32 place of the next one, u32 bytes used in it, bytes. Sizes are multiples of 4. */
const sliceHeadBytes = 8
const sliceBytesMin = 24
const sliceBytesMax = 512
/** Distance, fields, four frequencies. */
const postingBytesMax = 9

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
 * distance to the one before, a byte of fields (bit 4: every frequency is 1), else the frequencies of these fields.
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
    this.#states[at + recordAt] = none
    this.#states[at + beforeAt] = none
  }

  /** One more time the term in a field (0 to 3) of a record; 4: the term is a value and has no frequency. */
  add(term: number, record: number, field: number): void {
    const states = this.#states
    const at = term * stateSize
    if (states[at + recordAt] !== record) {
      if (states[at + recordAt] !== none) this.#putMet(at)
      this.#states[at + recordAt] = record
      this.#states[at + frequenciesAt] = field > 3 ? 0 : 1 << (field * 8)
      return
    }
    if (field > 3) return
    const frequencies = states[at + frequenciesAt]!
    const shift = field * 8
    if (((frequencies >>> shift) & 255) < 255) states[at + frequenciesAt] = frequencies + (1 << shift)
  }

  /** Writes the whole list; returns the number of its postings. */
  writeList(term: number, out: ByteWriter): number {
    const states = this.#states
    const at = term * stateSize
    const slices = states[at + countAt]!
    if (slices > 0) {
      this.#words[(states[at + sliceAt]! >> 2) + 1] = states[at + writeAt]! - states[at + sliceAt]!
      let slice = states[at + firstAt]!
      for (;;) {
        out.append(this.#bytes.subarray(slice + sliceHeadBytes, slice + this.#words[(slice >> 2) + 1]!))
        if (slice === states[at + sliceAt]) break
        slice = this.#words[slice >> 2]!
      }
    }
    if (states[at + recordAt] === none) return slices
    out.reserve(postingBytesMax)
    out.length = encode(out.bytes, out.length, this.#distanceOf(at), states[at + frequenciesAt]!)
    return slices + 1
  }

  forget(): void {
    this.filled = 0
  }

  /** The posting of the record met last. */
  #putMet(at: number): void {
    if (this.#states[at + endAt]! - this.#states[at + writeAt]! < postingBytesMax) this.#extend(at)
    const states = this.#states
    const from = states[at + writeAt]!
    states[at + writeAt] = encode(this.#bytes, from, this.#distanceOf(at), states[at + frequenciesAt]!)
    states[at + beforeAt] = states[at + recordAt]!
    states[at + countAt]!++
  }

  #distanceOf(at: number): number {
    return this.#states[at + recordAt]! - this.#states[at + beforeAt]! - 1
  }

  /** A further slice, larger than the one before. */
  #extend(at: number): void {
    const states = this.#states
    const before = states[at + sliceAt]!
    const slice = this.filled
    let size = sliceBytesMin
    if (states[at + countAt] === 0) {
      states[at + firstAt] = slice
    } else {
      size = Math.min(sliceBytesMax, (states[at + endAt]! - before) * 2 - sliceHeadBytes)
      this.#words[before >> 2] = slice
      this.#words[(before >> 2) + 1] = states[at + writeAt]! - before
    }
    this.filled += size
    if (this.filled > this.#bytes.length) this.#grow()
    states[at + sliceAt] = slice
    states[at + writeAt] = slice + sliceHeadBytes
    states[at + endAt] = slice + size
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
