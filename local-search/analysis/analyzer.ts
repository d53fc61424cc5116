/** Text in, terms out: the one reading of words that an index and its queries share. */

import type { Analyzer, EmitTerm, QueryTerm, TextField } from '../contract.ts'
import { classOf, separator } from './character-classes.ts'
import { foldWord } from './folding.ts'
import { isAsciiWordCode, stemOf, termsOfWord, type WordTerm } from './word-terms.ts'

/** How much of a word's weight its exact form brings, where slugs and paths have it. */
const exactPercent = 40

/** Words whose terms are remembered while indexing; when there are more it begins anew. */
const rememberedMax = 200_000
const rememberedLengthMax = 40
const remembered = new Map<string, readonly WordTerm[]>()

export const analyzer: Analyzer = {
  id: 'flotilla-porter-light10',
  version: 1,
  analyzeField,
  fold,
  termsOf,
}

function analyzeField(text: string, field: TextField, emit: EmitTerm): void {
  const exact = field === 'slug' || field === 'path'
  let position = -1
  for (let at = 0; at < text.length; ) {
    const end = wordEnd(text, at)
    if (end === at) {
      at++
      continue
    }
    for (const { term, surface, opens } of termsOfPiece(text.slice(at, end))) {
      if (opens) position++
      emit(term, position, surface)
      // So that a name is found as it is written before others that share its stem.
      if (exact && surface !== term) emit(surface, position, '')
    }
    at = afterPossessive(text, end)
  }
}

function termsOfPiece(word: string): readonly WordTerm[] {
  if (word.length > rememberedLengthMax) return termsOfWord(word)
  let terms = remembered.get(word)
  if (terms === undefined) {
    terms = termsOfWord(word)
    if (remembered.size >= rememberedMax) remembered.clear()
    remembered.set(word, terms)
  }
  return terms
}

function termsOf(surface: string): QueryTerm[] {
  const term = stemOf(surface)
  if (term === surface) return [{ term, percent: 100 }]
  return [
    { term, percent: 100 },
    { term: surface, percent: exactPercent },
  ]
}

/** The end of the run of word characters that begins here; `at` itself where none does. */
export function wordEnd(text: string, at: number): number {
  let end = at
  while (end < text.length) {
    const code = text.charCodeAt(end)
    if (code < 0x80) {
      if (!isAsciiWordCode(code)) break
      end++
    } else {
      const point = text.codePointAt(end)!
      if (classOf(point) === separator) break
      end += point > 0xffff ? 2 : 1
    }
  }
  return end
}

/** An apostrophe and s after a word are no word of their own. */
export function afterPossessive(text: string, at: number): number {
  const mark = text.charCodeAt(at)
  if (mark !== 0x27 && mark !== 0x2019) return at
  const s = text.charCodeAt(at + 1)
  return (s === 0x73 || s === 0x53) && wordEnd(text, at + 1) === at + 2 ? at + 2 : at
}

/** Case, marks and forms folded, white space as single spaces, none at the ends; everything else stays. */
function fold(text: string): string {
  let folded = ''
  let plainFrom = 0
  for (let at = 0; at < text.length; ) {
    if (text.charCodeAt(at) < 0x80) {
      at++
      continue
    }
    // A word with a character above ASCII is folded whole: marks belong to the letters before them. What is no word
    // stays as it is, whatever later engines know of its case.
    const inWord = classOf(text.codePointAt(at)!) !== separator
    let start = at
    while (inWord && start > plainFrom && isAsciiWordCode(text.charCodeAt(start - 1))) start--
    const end = inWord ? wordEnd(text, start) : at + 1
    folded += text.slice(plainFrom, start).toLowerCase()
    folded += inWord ? foldWord(text.slice(start, end)) : text[at]
    plainFrom = end
    at = end
  }
  return singleSpaces(folded + text.slice(plainFrom).toLowerCase())
}

/** Without an expression: titles that are compared one by one would each pay for it. */
function singleSpaces(text: string): string {
  const trimmed = text.trim()
  for (let i = 0; i < trimmed.length; i++) {
    const code = trimmed.charCodeAt(i)
    const plain = code === 32 ? trimmed.charCodeAt(i + 1) !== 32 : code > 32 && code < 0x80
    if (!plain) return trimmed.replace(/\s+/g, ' ')
  }
  return trimmed
}
