/** Reads plain text as query words, each with every term under which a record may hold it. */

import { classOf, paired, pairedMark } from '../analysis/character-classes.ts'
import { afterPossessive, hasSign, wordEnd } from '../analysis/word-end.ts'
import type { Analyzer, QueryTerm, QueryWord } from '../contract.ts'

export interface ReadWord {
  word: QueryWord
  /** A single character of a script without spaces: its terms begin with it. */
  lone: boolean
}

export function wordsOf(text: string, analyzer: Analyzer): ReadWord[] {
  const found: ReadWord[] = []
  for (let at = 0; at < text.length; ) {
    const end = wordEnd(text, at)
    if (end > at) addWord(found, text.slice(at, end), analyzer)
    at = end > at ? afterPossessive(text, end) : at + 1
  }
  return found
}

/**
 * The term that tells a word from others, and that phrases and filters require. For C++ it is the name with its sign,
 * because C# has the same base term.
 */
export function decisiveTerm({ terms }: QueryWord): string {
  const decisive = terms.find(({ term }) => hasSign(term)) ?? terms[0]
  return decisive?.term ?? ''
}

/** True for pairs of characters: they are no beginnings of longer words. */
export function endsInPair({ word, lone }: ReadWord): boolean {
  return !lone && isPaired(word.terms[0]!.term)
}

function isPaired(term: string): boolean {
  const code = term.codePointAt(0)!
  return code > 0x7f && classOf(code) === paired
}

/** One character, whatever marks it has. */
function isLone(term: string): boolean {
  let characters = 0
  for (const character of term) if (classOf(character.codePointAt(0)!) !== pairedMark) characters++
  return characters === 1
}

/** The terms of the analyser at one position. */
interface Emitted {
  surface: string
  term: string
  /** Surfaces other than the first: the parts of a name, and the name with its sign. */
  parts: string[]
}

function addWord(found: ReadWord[], text: string, analyzer: Analyzer): void {
  const emitted: Emitted[] = []
  analyzer.analyzeField(text, 'body', (term, position, surface) => {
    const base = emitted[position]
    if (base) base.parts.push(surface)
    else emitted[position] = { surface, term, parts: [] }
  })
  for (const one of emitted) found.push(readWord(one, emitted.length === 1 ? text : one.surface, analyzer))
}

function readWord({ surface, term, parts }: Emitted, text: string, analyzer: Analyzer): ReadWord {
  // Next to a pair of characters is its second one, for the index alone.
  if (isPaired(term)) return { word: wordOf(text, '', [{ term, percent: 100 }]), lone: isLone(term) }
  return {
    word: wordOf(text, surface, [...analyzer.termsOf(surface), ...termsOfParts(parts, analyzer)]),
    lone: false,
  }
}

/** The parts share one weight. */
function termsOfParts(parts: string[], analyzer: Analyzer): QueryTerm[] {
  const percent = Math.max(1, Math.floor(100 / parts.length))
  return [...new Set(parts)].map((part) => ({ term: analyzer.termsOf(part)[0]!.term, percent }))
}

function wordOf(text: string, surface: string, terms: QueryTerm[]): QueryWord {
  return { text, surface, terms }
}
