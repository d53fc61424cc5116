/** Answers a query: filters first, then words, then the best records and what is shown of them. */

import type { ParsedQuery, ScoringName, SearchAnswer, SearchOptions } from '../contract.ts'
import { valuePrefix, valueSeparator } from '../format.ts'
import { parseQuery } from '../query/parse.ts'
import { listed } from './bits.ts'
import type { Engine } from './engine.ts'
import { exactRecords, tierStep } from './exact.ts'
import { requireAll } from './filters.ts'
import { showHits } from './hits.ts'
import { rankOneWord, type WeighedList } from './one-word.ts'
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
  const { eligible, query } = requireAll(engine, typed, options)
  const { words, corrected } = resolveWords(engine, query)
  engine.scores.filter(eligible)
  const { ranked, total } =
    eligible && !hasWords(query)
      ? newest(eligible, limit)
      : rank(engine, text, words, scoring, limit, eligible !== null)
  const results = showHits(engine, ranked, words, scoring)
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
  isFiltered: boolean,
): Outcome {
  const { scores } = engine
  const lifted = new Map<number, number>()
  for (const [record, tier] of exactRecords(engine, text)) lifted.set(record, tier * tierStep)
  const isLiteral = scoring === 'literal'
  const [first] = words
  if (first && words.length === 1 && !isLiteral && !isFiltered) {
    if ('group' in first) {
      const { group, weight } = first
      if (lifted.size === 0) return { total: group.count, ranked: group.best(limit, weight) }
    } else {
      const best = rankOneWord(weighed(first), lifted, limit, engine.file.header.records)
      if (best) return best
    }
  }
  for (const word of words) {
    if ('group' in word) scores.addGroup(word.group, isLiteral ? null : word.weight)
    else if (isLiteral) addLiterally(scores, word)
    else for (const { list, weight } of weighed(word)) scores.score(list, weight)
  }
  for (const [record, add] of lifted) scores.lift(record, add)
  return { total: scores.metCount(), ranked: scores.best(limit) }
}

function addLiterally(scores: Scores, { lists }: ListedWord): void {
  const group = scores.takeGroup()
  for (const { list } of lists) group.add(list)
  scores.addGroup(group, null)
  scores.returnGroup(group)
}

/** The lists of a word that is scored by impacts, with what each counts. */
function weighed({ lists }: ListedWord): WeighedList[] {
  return lists.map(({ list, percent }) => ({
    list,
    weight: Math.max(1, Math.floor((list.weight * percent) / 100)),
  }))
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
