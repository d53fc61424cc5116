/** Reads the text of a field of a stored record. */

import type { TextField } from '../contract.ts'

/** The text of a field as the build read it: '' where it is missing, `mind_path` in place of a missing path. */
export function textOf(source: Record<string, unknown>, field: TextField): string {
  const text = stringIn(source, field)
  return text === '' && field === 'path' ? stringIn(source, 'mind_path') : text
}

function stringIn(source: Record<string, unknown>, field: string): string {
  const value = source[field]
  return typeof value === 'string' ? value : ''
}
