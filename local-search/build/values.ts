/** A record in, the terms out under which filters find the values of its fields. */

import type { Analyzer, SearchRecord } from '../contract.ts'
import { termBytesMax, valueBytesMax, valuePrefix, valueSeparator } from '../format.ts'

/** Searched by words, not by value. */
const textKeys: ReadonlySet<string> = new Set(['title', 'slug', 'path', 'body'])

/** Strings, numbers and truth values, alone or in an array; others and very long ones cannot be filtered by. */
export function valueTerms(source: SearchRecord['source'], analyzer: Analyzer): Set<string> {
  const terms = new Set<string>()
  for (const [field, value] of Object.entries(source)) {
    if (textKeys.has(field) || field.includes(valueSeparator)) continue
    for (const one of Array.isArray(value) ? value : [value]) {
      if (!['string', 'number', 'boolean'].includes(typeof one)) continue
      const text = String(one)
      if (text.length > valueBytesMax) continue
      const term = valueTerm(field, text, analyzer)
      if (Buffer.byteLength(term) <= termBytesMax) terms.add(term)
    }
  }
  return terms
}

/** Names of fields are as given, values folded. */
export function valueTerm(field: string, value: string, analyzer: Analyzer): string {
  return `${valuePrefix}${field}${valueSeparator}${analyzer.fold(value)}`
}
