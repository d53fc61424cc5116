/** Folds words with characters above ASCII, so that they compare equal whatever their case, marks and forms. */

import { apostrophes, classOf, ignored } from './character-classes.ts'

/** Letters that NFKD keeps apart though people mix them; ASCII for related letters, Arabic after light-10. */
const related: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  đ: 'd',
  ð: 'd',
  ħ: 'h',
  ı: 'i',
  ł: 'l',
  ŧ: 't',
  þ: 'th',
  ς: 'σ',
  ى: 'ي',
  ی: 'ي',
  ې: 'ي',
  ک: 'ك',
  ة: 'ه',
  ہ: 'ه',
  ٱ: 'ا',
}

const tatweel = 0x640

/**
 * Characters that a later Unicode might read otherwise never come here: they are separators. For all others Unicode
 * promises stable results of normalisation and lower case, so that every engine folds alike.
 */
export function foldWord(word: string): string {
  const apart = word.normalize('NFKD').toLowerCase()
  let folded = ''
  let base = 0
  for (let i = 0; i < apart.length; i++) {
    const code = apart.charCodeAt(i)
    if (code < 0x80) {
      base = code
      folded += apart[i]
    } else if (isIgnoredPair(apart, i, code)) {
      i++
    } else if (apostrophes.has(code)) {
      folded += "'"
    } else if (!isDropped(code, base)) {
      if (!isLatinMark(code)) base = code
      folded += digitOf(code) ?? related[apart[i]!] ?? apart[i]
    }
  }
  // The remaining characters are composed again: Korean syllables, voiced kana, the Cyrillic й.
  return folded.normalize('NFC')
}

/** A variation selector or tag beyond U+FFFF. */
function isIgnoredPair(text: string, at: number, code: number): boolean {
  return code >= 0xd800 && code < 0xdc00 && classOf(text.codePointAt(at)!) === ignored
}

function isDropped(code: number, base: number): boolean {
  if (isLatinMark(code)) return isLatinOrGreek(base) || (base === 0x435 && code === 0x308)
  if (code === tatweel || isArabicMark(code) || isHebrewMark(code)) return true
  return (code < 0xd800 || code > 0xdfff) && classOf(code) === ignored
}

function isLatinMark(code: number): boolean {
  return code >= 0x300 && code <= 0x36f
}

function isLatinOrGreek(code: number): boolean {
  return code < 0x400 || (code >= 0x1d00 && code < 0x2000) || (code >= 0xa720 && code < 0xa800)
}

function isHebrewMark(code: number): boolean {
  return (
    code >= 0x591 && code <= 0x5c7 && code !== 0x5be && code !== 0x5c0 && code !== 0x5c3 && code !== 0x5c6
  )
}

function isArabicMark(code: number): boolean {
  if (code < 0x610 || code > 0x8ff) return false
  return (
    code <= 0x61a ||
    (code >= 0x64b && code <= 0x65f) ||
    code === 0x670 ||
    (code >= 0x6d6 && code <= 0x6ed && code !== 0x6dd && code !== 0x6e9) ||
    (code >= 0x8d3 && code !== 0x8e2)
  )
}

/** Arabic and Persian digits as those of ASCII. */
function digitOf(code: number): string | undefined {
  if (code >= 0x660 && code <= 0x669) return String(code - 0x660)
  return code >= 0x6f0 && code <= 0x6f9 ? String(code - 0x6f0) : undefined
}
