/** Makes the terms of one word as it was written, in the order of their positions. */

import type { WordTerm } from '../contract.ts'
import { arabicStem, isArabic } from './arabic.ts'
import { classOf, ignored, letter, paired, pairedMark, pictograph, separator } from './character-classes.ts'
import { foldWord } from './folding.ts'
import { identifierParts } from './identifiers.ts'
import { porterStem } from './porter.ts'

/** Longer words are cut, in index and query alike: a term has at most 240 bytes of UTF-8. */
const wordLengthMax = 80

/** Marks of one character; further ones are left out. */
const marksMax = 8

/** The terms of a word as `wordEnd` finds it. */
export function termsOfWord(word: string): WordTerm[] {
  const found: WordTerm[] = []
  if (isAscii(word)) addAsciiWord(found, word)
  else if (classOf(word.codePointAt(0)!) === pictograph) addLetters(found, word)
  else addWideWord(found, foldWord(word))
  return found
}

/** The term that words of one meaning share. */
export function stemOf(surface: string): string {
  const first = surface.charCodeAt(0)
  if (isArabic(first)) return arabicStem(surface)
  return isSmallLetters(surface) ? porterStem(surface) : surface
}

function wordTerm(term: string, surface: string, opens: boolean): WordTerm {
  const exact = surface === term ? null : { term: surface, surface: '', opens: false, exact: null }
  return { term, surface, opens, exact }
}

function addAsciiWord(found: WordTerm[], whole: string): void {
  const named = whole.slice(0, wordLengthMax)
  const word = named.slice(0, bareLength(named))
  const surface = word.toLowerCase()
  found.push(wordTerm(stemOf(surface), surface, true))
  for (const part of identifierParts(word)) {
    if (part !== surface) found.push(wordTerm(stemOf(part), part, false))
  }
  // Without it C++ and C# would be the same word, C.
  if (word !== named) found.push(wordTerm(named.toLowerCase(), named.toLowerCase(), false))
}

/** Without its sign. */
function bareLength(word: string): number {
  let end = word.length
  while (end > 0 && !isAsciiWordCode(word.charCodeAt(end - 1))) end--
  return end
}

/** Folding may have brought separators, and several scripts may follow each other: every piece for itself. */
function addWideWord(found: WordTerm[], folded: string): void {
  let start = 0
  let kind = separator
  for (let at = 0; at <= folded.length; ) {
    const code = folded.codePointAt(at)
    const next = code === undefined ? separator : pieceOf(code, kind)
    if (next !== kind) {
      if (kind === letter) addLetters(found, folded.slice(start, at))
      if (kind === paired) addPairs(found, folded.slice(start, at))
      start = at
      kind = next
    }
    at += code !== undefined && code > 0xffff ? 2 : 1
  }
}

function pieceOf(code: number, before: number): number {
  const kind = code < 0x80 ? (isAsciiWordCode(code) ? letter : separator) : classOf(code)
  if (kind === pairedMark) return before === separator ? letter : before
  return kind === ignored ? before : kind
}

function addLetters(found: WordTerm[], word: string): void {
  const cut = word.slice(0, wordLengthMax)
  // Not through the middle of a character.
  const surface = cut.length < word.length && isHighSurrogate(cut) ? cut.slice(0, -1) : cut
  found.push(wordTerm(stemOf(surface), surface, true))
}

/**
 * Overlapping pairs of characters, each with its marks, and the last character alone next to the last pair: so that one
 * character is found as the beginning of a term wherever it is.
 */
function addPairs(found: WordTerm[], run: string): void {
  const characters: string[] = []
  for (const character of run) {
    const isMark = classOf(character.codePointAt(0)!) === pairedMark
    const last = characters.length - 1
    if (!isMark) characters.push(character)
    else if (characters[last]!.length <= marksMax) characters[last] += character
  }
  for (let i = 0; i + 1 < characters.length; i++) {
    const pair = characters[i]! + characters[i + 1]!
    found.push(wordTerm(pair, pair, true))
  }
  const last = characters[characters.length - 1]!
  found.push(wordTerm(last, last, characters.length === 1))
}

export function isAsciiWordCode(code: number): boolean {
  return (
    (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 95
  )
}

function isHighSurrogate(text: string): boolean {
  const code = text.charCodeAt(text.length - 1)
  return code >= 0xd800 && code < 0xdc00
}

function isAscii(word: string): boolean {
  for (let i = 0; i < word.length; i++) if (word.charCodeAt(i) > 0x7f) return false
  return true
}

function isSmallLetters(word: string): boolean {
  for (let i = 0; i < word.length; i++) {
    const code = word.charCodeAt(i)
    if (code < 97 || code > 122) return false
  }
  return true
}
