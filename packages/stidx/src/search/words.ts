/** Finds the posting lists of a query's words, and corrects a word that no record has. */

import { hasSign } from '../analysis/word-end.ts'
import type { ParsedQuery, QueryTerm, QueryWord } from '../contract.ts'
import { termWeightUnit } from '../format.ts'
import { decisiveTerm } from '../query/words.ts'
import { findTerm } from '../reader/terms.ts'
import { emptyBits, intersect, markList } from './bits.ts'
import { type Engine, type LoadedTerm, loadEntry, loadTerm } from './engine.ts'
import type { Group } from './group.ts'
import { joinPrefix } from './prefixes.ts'
import { correctionOf } from './typos.ts'

/** Sums of scores stay below the tiers of exact matches as long as there are no more. */
const scoredWordsMax = 256

/** A word with the lists of its terms, each with a weight of its own. */
export interface ListedWord {
  lists: { list: LoadedTerm; percent: number }[]
}

/** All words that begin alike, joined to one, and their weight. */
export interface JoinedWord {
  group: Group
  weight: number
}

/** One alternative of a query. */
export type ScoredWord = ListedWord | JoinedWord

export interface ResolvedWords {
  words: ScoredWord[]
  /** Typed words, and the words searched in their place. */
  corrected: Map<string, string>
}

/** Lists of all that scores: words, those of phrases and of filters, prefixes. */
export function resolveWords(engine: Engine, query: ParsedQuery): ResolvedWords {
  const corrected = new Map<string, string>()
  const words: ScoredWord[] = []
  for (const word of scoringWords(query)) {
    const found = resolveWord(engine, word, corrected)
    if (found) words.push(found)
  }
  for (const { prefix } of query.prefixes) {
    const found = resolvePrefix(engine, prefix)
    if (found) words.push(found)
  }
  return { words: words.slice(0, scoredWordsMax), corrected }
}

/** Each word once, however often it was typed. Only free words are corrected: phrases and filters are meant literally. */
function scoringWords(query: ParsedQuery): QueryWord[] {
  const required = [
    ...query.phrases.flatMap(({ words }) => words),
    ...query.filters.flatMap((filter) => (filter.kind === 'words' ? filter.words : [])),
  ]
  const all = [...query.words, ...required.map((word) => ({ ...word, surface: '' }))]
  const seen = new Set<string>()
  return all.filter((word) => {
    const name = decisiveTerm(word)
    return seen.size < scoredWordsMax && !seen.has(name) && seen.add(name)
  })
}

function resolveWord(engine: Engine, word: QueryWord, corrected: Map<string, string>): ListedWord | null {
  const lists = loadTerms(engine, word.terms)
  if (lists.length > 0) return { lists }
  const instead = word.surface === '' ? null : correctionOf(engine, word.surface)
  if (instead === null) return null
  corrected.set(word.text, instead)
  return { lists: loadTerms(engine, engine.analyzer.termsOf(instead)) }
}

function loadTerms(engine: Engine, terms: readonly QueryTerm[]): ListedWord['lists'] {
  return terms.flatMap(({ term, percent }) => {
    const list = loadTerm(engine, term)
    return list ? [{ list, percent }] : []
  })
}

/** A bit for each record that holds all the words; with `fields` (bits), each in one of these fields. C++ is not C# here. */
export function wordsRecords(engine: Engine, words: readonly QueryWord[], fields: number): Uint8Array {
  const { records } = engine.file.header
  let bits: Uint8Array | null = null
  for (const word of words) {
    const next = emptyBits(records)
    const decisive = decisiveTerm(word)
    const terms = hasSign(decisive) ? [{ term: decisive, percent: 100 }] : word.terms
    for (const { list } of loadTerms(engine, terms)) markList(next, list, fields, records)
    if (bits) intersect(bits, next)
    else bits = next
  }
  return bits ?? emptyBits(records)
}

/** All words of the lexicon that begin so count as one: its frequency is that of their union. */
function resolvePrefix(engine: Engine, prefix: string): ScoredWord | null {
  const entry = findTerm(engine.beginnings, prefix)
  if (entry) return { lists: [{ list: loadEntry(engine, entry, 'joined'), percent: 100 }] }
  const group = engine.scores.takeGroup()
  joinPrefix(engine, prefix, group)
  if (group.count === 0) return null
  return { group, weight: weightOf(group.count, engine.file.header.records) }
}

/** As the builder weighs terms. */
function weightOf(count: number, records: number): number {
  return Math.max(1, Math.round(Math.log(1 + (records - count + 0.5) / (count + 0.5)) * termWeightUnit))
}
