/** Reads the words of a text as terms, in the one way that an index and its queries share. */

import type { Analyzer, EmitTerm, QueryTerm, TextField, WordTerm } from '../contract.ts'
import { apostrophes, classOf, pictograph, separator } from './character-classes.ts'
import { foldWord } from './folding.ts'
import { afterPossessive, wordEnd } from './word-end.ts'
import { isAsciiWordCode, stemOf, termsOfWord } from './word-terms.ts'

const zeroWidthSpace = 0x200b

/** How much of a word's weight its exact form brings, where slugs and paths have it. */
const exactPercent = 40

export const analyzer: Analyzer = {
  id: 'flotilla-porter-light10',
  version: 2,
  analyzeField,
  termsOfWord,
  hasExactForms,
  fold,
  termsOf,
}

function analyzeField(text: string, field: TextField, emit: EmitTerm): void {
  let position = -1
  const takeAll = giving(field, ({ term, surface, opens }) => {
    if (opens) position++
    emit(term, position, surface)
  })
  for (let at = 0; at < text.length; ) {
    const end = wordEnd(text, at)
    if (end > at) takeAll(termsOfWord(text.slice(at, end)))
    at = end > at ? afterPossessive(text, end) : at + 1
  }
}

/** So that a name is found as it is written before others that share its stem. */
function hasExactForms(field: TextField): boolean {
  return field === 'slug' || field === 'path'
}

function giving(field: TextField, take: (term: WordTerm) => void): (terms: readonly WordTerm[]) => void {
  const exact = hasExactForms(field)
  return (terms) => {
    for (const term of terms) {
      take(term)
      if (exact && term.exact !== null) take(term.exact)
    }
  }
}

function termsOf(surface: string): QueryTerm[] {
  const term = stemOf(surface)
  if (term === surface) return [{ term, percent: 100 }]
  return [
    { term, percent: 100 },
    { term: surface, percent: exactPercent },
  ]
}

/** Case, marks, forms and apostrophes folded, white space as single spaces, none at the ends; everything else stays. */
function fold(text: string): string {
  if (isFolded(text)) return text
  let folded = ''
  let plainFrom = 0
  for (let at = 0; at < text.length; ) {
    if (text.charCodeAt(at) < 0x80) {
      at++
      continue
    }
    // A word with a character above ASCII is folded whole: marks belong to the letters before them. Separators
    // stay as they are, whatever later engines know of their case.
    const kind = classOf(text.codePointAt(at)!)
    const inWord = kind !== separator && kind !== pictograph
    let start = at
    while (inWord && start > plainFrom && isAsciiWordCode(text.charCodeAt(start - 1))) start--
    const end = inWord ? wordEnd(text, start) : at + 1
    folded += text.slice(plainFrom, start).toLowerCase()
    folded += inWord ? foldWord(text.slice(start, end)) : foldSeparator(text, at)
    plainFrom = end
    at = end
  }
  return singleSpaces(folded + text.slice(plainFrom).toLowerCase())
}

function foldSeparator(text: string, at: number): string {
  const code = text.charCodeAt(at)
  if (code === zeroWidthSpace) return ' '
  return apostrophes.has(code) ? "'" : text[at]!
}

/** Whether the text has only small letters, digits and signs of ASCII, as most values and many slugs do. */
function isFolded(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code <= 32 || code >= 0x7f || (code >= 65 && code <= 90)) return false
  }
  return true
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
