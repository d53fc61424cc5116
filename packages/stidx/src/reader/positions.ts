/**
 * Reads where in its fields each record of a posting list holds the term. A position is counted in words from the
 * beginning of its field.
 */

import { badIndex } from '../fault.ts'
import { positionsHeadBytes } from '../format.ts'
import type { IndexFile } from './file.ts'

/** The positions behind the list that ends at this place of the section of postings. */
export function readPositions(file: IndexFile, listEnd: number): Buffer {
  const head = file.read('postings', listEnd, positionsHeadBytes)
  const bytes = file.read('postings', listEnd + positionsHeadBytes, head.readUInt32LE(0))
  if (file.checksum(bytes) !== head.readUInt32LE(4)) throw damaged()
  return bytes
}

/** Goes through the positions of a list, posting by posting in its order. */
export class PositionWalk {
  /** Of the posting that was read: field (0 to 3) × 2^24 + position, rising. */
  places = new Uint32Array(256)
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  /** Reads the positions of the next posting, whose fields (bits) these are; returns how many there are. */
  next(fields: number): number {
    const bytes = this.#bytes
    let at = this.#at
    let left = fields
    let field = -1
    let place = 0
    let count = 0
    while (at < bytes.length) {
      const first = bytes[at]!
      if (first & 1) {
        if (left === 0) break
        field = 31 - Math.clz32(left & -left)
        left &= left - 1
        place = field * placesPerField
      }
      at++
      let entry = first & 127
      for (let shift = 7, byte = first; byte > 127; shift += 7) {
        if (shift > 21 || at === bytes.length) throw damaged()
        byte = bytes[at++]!
        entry |= (byte & 127) << shift
      }
      place += entry >> 1
      if (field === -1 || place >= (field + 1) * placesPerField) throw damaged()
      if (count === this.places.length) this.places = larger(this.places)
      this.places[count++] = place
    }
    if (left !== 0) throw damaged()
    this.#at = at
    return count
  }
}

export const placesPerField = 2 ** 24

function larger(places: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const copy = new Uint32Array(places.length * 2)
  copy.set(places)
  return copy
}

function damaged(): Error {
  return badIndex('is damaged (positions)')
}
