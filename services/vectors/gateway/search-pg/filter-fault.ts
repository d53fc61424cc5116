/** What is wrong with a filter_sql in, the fault that its sender gets out. */

import { AppError } from '#lib/errors.ts'

const allowed =
  'Allowed are columns of the table and literals (also cast to text, int, float, bool or timestamptz) with =, <>, <, ' +
  '<=, >, >=, IN, BETWEEN, LIKE, ILIKE, IS NULL, IS NOT NULL, = ANY(array column), AND, OR, NOT and parentheses.'

/** A 400 in the platform's words; `message` may quote what the caller sent, never what the engine said. */
export function invalidFilter(message: string, cause?: unknown): AppError {
  return new AppError('invalid_filter', message, {
    errors: [{ path: '/filter_sql', message }],
    ...(cause === undefined ? {} : { cause }),
  })
}

/** The fault of a construct that the allow-list does not have. */
export function notAllowed(construct: string): AppError {
  return invalidFilter(`filter_sql has ${construct}, which is not allowed. ${allowed}`)
}

const quotedMax = 48

/** A name or piece of the caller's text, short enough for a message. */
export function quoted(text: string): string {
  const characters = Array.from(text)
  return JSON.stringify(characters.length > quotedMax ? `${characters.slice(0, quotedMax).join('')}…` : text)
}
