/** Finds the entry of a term: its posting list, or where that is, and how much the term weighs. */

import { badIndex } from '../fault.ts'
import { impactMax, inlineBytesMax, valuePrefix } from '../format.ts'
import type { Tree } from './tree.ts'

export interface TermEntry {
  /** Records that hold the term. */
  count: number
  /** The term's weight in a score, in 1/1024; 0 for values of fields. */
  weight: number
  impactMax: number
  /** The list itself where it is short, else its place and checksum. */
  inline: Buffer | null
  offset: number
  length: number
  checksum: number
  /** Where the positions of a list of one block are in the section of postings; null where it has none. */
  positionsAt: number | null
}

export function findTerm(tree: Tree, term: string): TermEntry | null {
  const value = tree.find(Buffer.from(term, 'utf8'))
  return value && decodeEntry(value, term.startsWith(valuePrefix))
}

export function decodeEntry(value: Buffer, isValue: boolean): TermEntry {
  const count = readVarint(value, 0)
  const weightAt = count.end
  const lengthAt = isValue ? weightAt : weightAt + 3
  const length = readVarint(value, lengthAt)
  const entry: TermEntry = {
    count: count.value,
    weight: isValue ? 0 : value.readUInt16LE(weightAt),
    impactMax: isValue ? 0 : value[weightAt + 2]!,
    inline: null,
    offset: 0,
    length: length.value,
    checksum: 0,
    positionsAt: null,
  }
  if (entry.impactMax > impactMax || count.value === 0) throw damaged()
  if (length.value <= inlineBytesMax) {
    const listEnd = length.end + length.value
    const positionsAt = decodePositionsAt(value, listEnd, isValue)
    return { ...entry, inline: value.subarray(length.end, listEnd), positionsAt }
  }
  const offset = readVarint(value, length.end)
  const listEnd = offset.end + 4
  const positionsAt = decodePositionsAt(value, listEnd, isValue)
  return { ...entry, offset: offset.value, checksum: value.readUInt32LE(offset.end), positionsAt }
}

/** Decodes the bytes behind the list or its place, up to the end of the value. */
function decodePositionsAt(value: Buffer, at: number, isValue: boolean): number | null {
  if (at === value.length) return null
  if (at > value.length || isValue) throw damaged()
  const place = readVarint(value, at)
  if (place.end !== value.length) throw damaged()
  return place.value
}

/** How often a word of the lexicon was met. */
export function decodeSurfaceCount(value: Buffer): number {
  return readVarint(value, 0).value
}

/** At most seven bytes: 2^49 is more than any number here. */
function readVarint(bytes: Buffer, start: number): { value: number; end: number } {
  let value = 0
  let scale = 1
  for (let at = start; at < bytes.length && at < start + 7; at++) {
    const byte = bytes[at]!
    value += (byte & 127) * scale
    if (byte < 128) return { value, end: at + 1 }
    scale *= 128
  }
  throw damaged()
}

function damaged(): Error {
  return badIndex('is damaged (terms)')
}
