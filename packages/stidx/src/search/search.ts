/** Answers a query: filters first, then words, then the best records with the fields shown. */

import type { ParsedQuery, ScoringName, SearchAnswer, SearchOptions } from '../contract.ts'
import { valuePrefix, valueSeparator } from '../format.ts'
import { parseQuery } from '../query/parse.ts'
import { listed } from './bits.ts'
import { type Engine, type LoadedTerm, weightShare } from './engine.ts'
import { exactRecords, tierStep } from './exact.ts'
import { type Required, requireAll } from './filters.ts'
import { showHits } from './hits.ts'
import { rankOneWord, type WeighedList } from './one-word.ts'
import type { PhraseScores } from './phrases.ts'
import type { Scores } from './scores.ts'
import type { Ranked } from './top-records.ts'
import { type ListedWord, resolveWords, type ScoredWord } from './words.ts'

export const limitDefault = 10
export const limitMax = 10_000

export function search(engine: Engine, text: string, options: SearchOptions): SearchAnswer {
  // The global `performance` would cost a process that searches once the time to load it.
  const startedAt = process.hrtime()
  const { limit = limitDefault, scoring = 'bm25' } = options
  const typed = parseQuery(text, engine.analyzer, (name) => isField(engine, name))
  engine.scores.begin()
  const required = requireAll(engine, typed, options)
  const { eligible, query } = required
  const { words, corrected } = resolveWords(engine, query)
  const { ranked, total } =
    eligible && !hasWords(query)
      ? newest(eligible, limit)
      : rank(engine, text, words, scoring, limit, required)
  const results = showHits(engine, ranked, words, scoring)
  engine.lists.clear()
  return {
    query: text,
    total,
    took_ms: millisecondsSince(startedAt),
    ...(corrected.size > 0 ? { corrected: Object.fromEntries(corrected) } : {}),
    ...(query === typed ? {} : { relaxed: true as const }),
    results,
  }
}

/** With three decimals. */
function millisecondsSince(start: [number, number]): number {
  const [seconds, nanoseconds] = process.hrtime(start)
  return Math.round(seconds * 1e6 + nanoseconds / 1e3) / 1e3
}

interface Outcome {
  ranked: Ranked[]
  total: number
}

function rank(
  engine: Engine,
  text: string,
  words: readonly ScoredWord[],
  scoring: ScoringName,
  limit: number,
  { eligible, scored }: Required,
): Outcome {
  const { scores } = engine
  const lifted = new Map<number, number>()
  for (const [record, tier] of exactRecords(engine, text)) lifted.set(record, tier * tierStep)
  const isLiteral = scoring === 'literal'
  const [first] = words
  if (first && words.length === 1 && !isLiteral && !eligible) {
    if ('group' in first) {
      const { group, weight } = first
      if (lifted.size === 0) return { total: group.count, ranked: group.best(limit, weight) }
    } else {
      const best = rankOneWord(weighed(first), lifted, limit, engine.file.header.records)
      if (best) return best
    }
  }
  const done = isLiteral ? null : takeScored(scores, words, scored)
  for (const word of words) {
    if ('group' in word) scores.addGroup(word.group, isLiteral ? null : word.weight)
    else if (isLiteral) addLiterally(scores, word)
    else addWeighed(scores, word, done)
  }
  for (const [record, add] of lifted) scores.lift(record, add)
  if (eligible) scores.restrict(eligible)
  return { total: scores.metCount(), ranked: scores.best(limit) }
}

/** Takes over what the phrase has scored, if the query has the same words; the lists that are done by that. */
function takeScored(
  scores: Scores,
  words: readonly ScoredWord[],
  scored: PhraseScores | null,
): Set<LoadedTerm> | null {
  if (!scored) return null
  const whole = words.flatMap((word) => ('group' in word ? [] : word.lists)).filter(isWhole)
  const open = new Set(whole.map(({ list }) => list))
  if (![...scored.lists].every((list) => open.has(list))) return null
  scored.each((record, score) => scores.lift(record, score))
  return new Set(scored.lists)
}

/** Whether its share of the word's weight is all of it. */
function isWhole({ percent }: ListedWord['lists'][number]): boolean {
  return percent === 100
}

function addWeighed(scores: Scores, word: ListedWord, done: Set<LoadedTerm> | null): void {
  for (const one of word.lists) {
    // Each counts once: another word may have the same list.
    if (isWhole(one) && done?.delete(one.list)) continue
    scores.score(one.list, weightShare(one.list, one.percent))
  }
}

function addLiterally(scores: Scores, { lists }: ListedWord): void {
  const group = scores.takeGroup()
  for (const { list } of lists) group.add(list)
  scores.addGroup(group, null)
  scores.returnGroup(group)
}

/** The lists of a word that is scored by impacts, with what each counts. */
function weighed({ lists }: ListedWord): WeighedList[] {
  return lists.map(({ list, percent }) => ({ list, weight: weightShare(list, percent) }))
}

/** Without a word to search for: everything that passes the filters. */
function newest(eligible: Uint8Array, limit: number): Outcome {
  const { first, total } = listed(eligible, limit)
  return { total, ranked: first.map((record) => ({ record, score: 0 })) }
}

function hasWords({ words, phrases, prefixes, filters }: ParsedQuery): boolean {
  const required = phrases.length > 0 || filters.some(({ kind }) => kind === 'words')
  return required || words.length > 0 || prefixes.length > 0
}

/** Whether any record has a value in a field of this name. */
function isField({ tree }: Engine, name: string): boolean {
  let found = false
  tree.visitPrefix(Buffer.from(valuePrefix + name + valueSeparator, 'utf8'), () => {
    found = true
    return false
  })
  return found
}
