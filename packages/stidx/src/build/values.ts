/** Makes the terms under which filters find the values of a record's fields. */

import type { SearchRecord } from '../contract.ts'
import { isRawJson } from '../exact-json.ts'
import { valueBytesMax, valueSeparator } from '../format.ts'

/** Searched by words, not by value. */
const textKeys: ReadonlySet<string> = new Set(['title', 'slug', 'path', 'body'])

/** Strings, numbers and truth values, alone or in an array; numbers beyond a double as they are written. */
export function eachValue(
  source: SearchRecord['source'],
  visit: (field: string, value: string) => void,
): void {
  for (const field of Object.keys(source)) {
    if (textKeys.has(field) || field.includes(valueSeparator)) continue
    const value = source[field]
    if (Array.isArray(value)) for (const one of value) visitOne(field, one, visit)
    else visitOne(field, value, visit)
  }
}

function visitOne(field: string, given: unknown, visit: (field: string, value: string) => void): void {
  const value = isRawJson(given) ? given.rawJSON : given
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return
  const text = String(value)
  // Very long ones cannot be filtered by.
  if (text.length <= valueBytesMax) visit(field, text)
}
