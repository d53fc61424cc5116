/** Hashes a word and each of its forms with one letter left out, for the corrections of mistyped words. */

import { correctableMax, correctableMin, deletionsOf, hasDeletions } from '../deletions.ts'
import { crc32, crcBegin, crcEnd, crcStep } from './checksum.ts'

/** `surface` as UTF-8 bytes, a character each. */
export function eachDeletionHash(surface: string, visit: (hash: number) => void): void {
  if (isSmallLetters(surface)) {
    if (surface.length >= correctableMin && surface.length <= correctableMax) hashAscii(surface, visit)
    return
  }
  const text = Buffer.from(surface, 'latin1').toString('utf8')
  if (!hasDeletions(text)) return
  for (const form of deletionsOf(text)) visit(crc32(form))
}

/** The same without making the forms: each shares its beginning with the surface. */
function hashAscii(surface: string, visit: (hash: number) => void): void {
  let beginning = crcBegin
  for (let left = 0; left < surface.length; left++) {
    const code = surface.charCodeAt(left)
    // In a row of equal letters only the last is deleted: deleting another gives the same form.
    if (code !== surface.charCodeAt(left + 1)) {
      let form = beginning
      for (let i = left + 1; i < surface.length; i++) form = crcStep(form, surface.charCodeAt(i))
      visit(crcEnd(form))
    }
    beginning = crcStep(beginning, code)
  }
  visit(crcEnd(beginning))
}

function isSmallLetters(surface: string): boolean {
  for (let i = 0; i < surface.length; i++) {
    const code = surface.charCodeAt(i)
    if (code < 97 || code > 122) return false
  }
  return true
}
