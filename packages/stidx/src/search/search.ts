/** A query in, an answer out: filters, then words, then the best records and what is shown of them. */

import type { ParsedQuery, ScoringName, SearchAnswer, SearchOptions } from '../contract.ts'
import { valuePrefix, valueSeparator } from '../format.ts'
import type { Ranked } from '../kernel/kernel.ts'
import { parseQuery } from '../query/parse.ts'
import type { Engine } from './engine.ts'
import { exactRecords, tierStep } from './exact.ts'
import { eligibleRecords, listed } from './filters.ts'
import { showHits } from './hits.ts'
import { resolveWords, type ScoredWord } from './words.ts'

export const limitDefault = 10
export const limitMax = 10_000

export function search(engine: Engine, text: string, options: SearchOptions): SearchAnswer {
  const startedAt = performance.now()
  const { kernel } = engine
  const { limit = limitDefault, scoring = 'bm25' } = options
  const query = parseQuery(text, engine.analyzer, (name) => isField(engine, name))
  kernel.begin()
  const eligible = eligibleRecords(engine, query, options)
  const eligibleAt = eligible && { at: eligible.byteOffset, length: eligible.length }
  const { words, corrected } = resolveWords(engine, query)
  kernel.filter(eligibleAt?.at ?? null)
  const { ranked, total } =
    eligibleAt && !hasWords(query)
      ? newest(kernel.view(eligibleAt.at, eligibleAt.length), limit)
      : rank(engine, text, words, scoring, limit)
  const results = showHits(engine, ranked, words, scoring)
  kernel.end()
  return {
    query: text,
    total,
    took_ms: Math.round((performance.now() - startedAt) * 1000) / 1000,
    ...(corrected.size > 0 ? { corrected: Object.fromEntries(corrected) } : {}),
    results,
  }
}

interface Outcome {
  ranked: Ranked[]
  total: number
}

function rank(
  { kernel, ...engine }: Engine,
  text: string,
  words: readonly ScoredWord[],
  scoring: ScoringName,
  limit: number,
): Outcome {
  for (const { lists, weight } of words) {
    if (weight === null && scoring === 'bm25') {
      for (const { list, percent } of lists) {
        kernel.score(list, Math.max(1, Math.floor((list.weight * percent) / 100)))
      }
    } else {
      for (const { list } of lists) kernel.gather(list)
      kernel.addGroup(scoring === 'literal' ? null : weight)
    }
  }
  for (const [record, tier] of exactRecords({ kernel, ...engine }, text)) kernel.lift(record, tier * tierStep)
  return { total: kernel.metCount(), ranked: kernel.best(limit) }
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
