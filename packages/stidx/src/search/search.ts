/** Answers a query: filters first, then words, then the best records and what is shown of them. */

import type { ParsedQuery, ScoringName, SearchAnswer, SearchOptions } from '../contract.ts'
import { valuePrefix, valueSeparator } from '../format.ts'
import { parseQuery } from '../query/parse.ts'
import { listed } from './bits.ts'
import type { Engine } from './engine.ts'
import { exactRecords, tierStep } from './exact.ts'
import { eligibleRecords } from './filters.ts'
import { showHits } from './hits.ts'
import { rankOneWord, type WeighedList } from './one-word.ts'
import type { Ranked } from './top-records.ts'
import { resolveWords, type ScoredWord } from './words.ts'

export const limitDefault = 10
export const limitMax = 10_000

export function search(engine: Engine, text: string, options: SearchOptions): SearchAnswer {
  // The global `performance` would cost a process that searches once the time to load it.
  const startedAt = process.hrtime()
  const { limit = limitDefault, scoring = 'bm25' } = options
  const query = parseQuery(text, engine.analyzer, (name) => isField(engine, name))
  engine.scores.begin()
  const eligible = eligibleRecords(engine, query, options)
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
  if (words.length === 1 && scoring === 'bm25' && words[0]!.weight === null && !isFiltered) {
    const best = rankOneWord(weighed(words[0]!), lifted, limit, engine.file.header.records)
    if (best) return best
  }
  for (const word of words) {
    const { lists, weight } = word
    if (weight === null && scoring === 'bm25') {
      for (const { list, weight } of weighed(word)) scores.score(list, weight)
    } else {
      for (const { list } of lists) scores.gather(list)
      scores.addGroup(scoring === 'literal' ? null : weight)
    }
  }
  for (const [record, add] of lifted) scores.lift(record, add)
  return { total: scores.metCount(), ranked: scores.best(limit) }
}

/** The lists of a word that is scored by impacts, with what each counts. */
function weighed({ lists }: ScoredWord): WeighedList[] {
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
