/** A record in, the terms out under which filters find the values of its fields. */

import type { Analyzer, SearchRecord } from '../contract.ts'
import { valueBytesMax, valuePrefix, valueSeparator } from '../format.ts'

/** Searched by words, not by value. */
const textKeys: ReadonlySet<string> = new Set(['title', 'slug', 'path', 'body'])

/** Strings, numbers and truth values, alone or in an array; others and very long ones cannot be filtered by. */
export function eachValue(
  source: SearchRecord['source'],
  visit: (field: string, value: string) => void,
): void {
  for (const [field, value] of Object.entries(source)) {
    if (textKeys.has(field) || field.includes(valueSeparator)) continue
    for (const one of Array.isArray(value) ? value : [value]) {
      if (!['string', 'number', 'boolean'].includes(typeof one)) continue
      const text = String(one)
      if (text.length <= valueBytesMax) visit(field, text)
    }
  }
}

/** Names of fields are as given, values folded. */
export function valueTerm(field: string, value: string, analyzer: Analyzer): string {
  return `${valuePrefix}${field}${valueSeparator}${analyzer.fold(value)}`
}
