/** Finds the records that a search is restricted to: those that pass its filters and hold its phrases. */

import type { ParsedQuery, QueryFilter, SearchOptions } from '../contract.ts'
import { textFields, valuePrefix, valueSeparator } from '../format.ts'
import { emptyBits, intersect, markList } from './bits.ts'
import { type Engine, loadTerm } from './engine.ts'
import { phraseRecords } from './phrases.ts'
import { wordsRecords } from './words.ts'

/** A bit for each record that passes; null where nothing is required. */
export function eligibleRecords(
  engine: Engine,
  query: ParsedQuery,
  options: SearchOptions,
): Uint8Array | null {
  let eligible: Uint8Array | null = null
  const require = (bits: Uint8Array) => {
    if (eligible) intersect(eligible, bits)
    else eligible = bits
  }
  for (const filter of [...optionFilters(options), ...query.filters]) require(filterRecords(engine, filter))
  for (const phrase of query.phrases) require(phraseRecords(engine, phrase))
  return eligible
}

function optionFilters({ collection, status, tag }: SearchOptions): QueryFilter[] {
  const wanted = { collection, status, tags: tag }
  return Object.entries(wanted).flatMap(([field, value]) =>
    value === undefined ? [] : [{ kind: 'value' as const, field, value }],
  )
}

function filterRecords(engine: Engine, filter: QueryFilter): Uint8Array {
  if (filter.kind === 'value') return valueRecords(engine, filter.field, filter.value)
  return wordsRecords(engine, filter.words, 1 << textFields.indexOf(filter.field))
}

function valueRecords(engine: Engine, field: string, value: string): Uint8Array {
  const term = `${valuePrefix}${field}${valueSeparator}${engine.analyzer.fold(value)}`
  const list = loadTerm(engine, term)
  const bits = emptyBits(engine.file.header.records)
  if (list) markList(bits, list, 0, engine.file.header.records)
  return bits
}
