/** CRC-32 of what a build writes: of bytes by Node where it has one (from 20.15 and 22.2 on), which is faster. */

import * as zlib from 'node:zlib'
import { crc32 as crc32ByTable, crcTable } from '../checksum.ts'
import { type PlacedSection, placeMark } from '../format.ts'

export const crc32 = (zlib as { crc32?: typeof crc32ByTable }).crc32 ?? crc32ByTable

/** The checksum of a page or record at its place, as it is written: `place` as `placeMark` takes it. */
export function placedSum(bytes: Uint8Array, section: PlacedSection, place: number): number {
  return (crc32(bytes) ^ placeMark(section, place)) >>> 0
}

const table = crcTable()

/** The CRC-32 of a text, in JavaScript: most texts are short, and a native call would cost more than the loop. */
export function crc32OfText(text: string): number {
  let crc = crcBegin
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code > 0x7f) return crc32(text)
    crc = crcStep(crc, code)
  }
  return crcEnd(crc)
}

export const crcBegin = -1

/** The state of a checksum after one more byte. */
export function crcStep(crc: number, byte: number): number {
  return table[(crc ^ byte) & 255]! ^ (crc >>> 8)
}

export function crcEnd(crc: number): number {
  return ~crc >>> 0
}
