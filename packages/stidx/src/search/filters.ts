/**
 * Finds the records that a search is restricted to: those that pass its filters and hold its phrases. What matches nothing
 * is given up, and its words are searched in its place: a question with quotes and colons in it is to find something.
 */

import type { ParsedQuery, QueryFilter, SearchOptions } from '../contract.ts'
import { textFields, valuePrefix, valueSeparator } from '../format.ts'
import { withPlainWords } from '../query/parse.ts'
import { emptyBits, hasAny, intersect, markList } from './bits.ts'
import { type Engine, loadTerm } from './engine.ts'
import { type PhraseScores, phraseRecords } from './phrases.ts'
import { wordsRecords } from './words.ts'

export interface Required {
  /** A bit for each record that passes; null where nothing is required. */
  eligible: Uint8Array | null
  /** The query to search in these records: as it was given, unless something was given up. */
  query: ParsedQuery
  /** Scores of the first phrase, which are known already. */
  scored: PhraseScores | null
}

/**
 * Filters of the options always count. A filter of the query counts where any record passes it. A phrase counts where
 * any record holds it that passes all filters and holds the phrases before it.
 */
export function requireAll(engine: Engine, query: ParsedQuery, options: SearchOptions): Required {
  const { records } = engine.file.header
  let eligible: Uint8Array | null = null
  const require = (bits: Uint8Array) => {
    if (eligible) intersect(eligible, bits)
    else eligible = bits
  }
  for (const [field, value] of optionFilters(options)) {
    require(valueRecords(engine, field, value) ?? emptyBits(records))
  }
  const givenUp: string[] = []
  const filters = query.filters.filter((filter) => {
    const bits = filterRecords(engine, filter)
    if (bits) require(bits)
    else givenUp.push(filter.text)
    return bits !== null
  })
  let scored: PhraseScores | null = null
  const phrases = query.phrases.filter((phrase) => {
    if (eligible && !hasAny(eligible)) return true
    const { bits, scores } = phraseRecords(engine, phrase, eligible)
    if (eligible) intersect(bits, eligible)
    if (hasAny(bits)) {
      eligible = bits
      scored ??= scores
      return true
    }
    givenUp.push(phrase.text)
    return false
  })
  if (givenUp.length === 0) return { eligible, query, scored }
  const relaxed = withPlainWords({ ...query, filters, phrases }, givenUp, engine.analyzer)
  return { eligible, query: relaxed, scored }
}

function optionFilters({ collection, status, tag }: SearchOptions): [string, string][] {
  const wanted = { collection, status, tags: tag }
  return Object.entries(wanted).flatMap(([field, value]) => (value === undefined ? [] : [[field, value]]))
}

/** Null where no record passes. */
function filterRecords(engine: Engine, filter: QueryFilter): Uint8Array | null {
  if (filter.kind === 'value') return valueRecords(engine, filter.field, filter.text)
  const bits = wordsRecords(engine, filter.words, 1 << textFields.indexOf(filter.field))
  return hasAny(bits) ? bits : null
}

function valueRecords(engine: Engine, field: string, value: string): Uint8Array | null {
  const term = `${valuePrefix}${field}${valueSeparator}${engine.analyzer.fold(value)}`
  const list = loadTerm(engine, term)
  if (!list) return null
  const bits = emptyBits(engine.file.header.records)
  markList(bits, list, 0, engine.file.header.records)
  return bits
}
