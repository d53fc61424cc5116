/** The faults of search-pg: faults of a filter_sql, and the meaning of a statement's fault for its caller. */

import { sqlState } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'

const allowed =
  'Allowed are columns of the table and literals (also cast to text, int, float, bool or timestamptz) with =, <>, <, ' +
  '<=, >, >=, IN, BETWEEN, LIKE, ILIKE, IS NULL, IS NOT NULL, = ANY(array column), AND, OR, NOT and parentheses.'

/** A 400; `message` may quote what the caller sent, never what the engine said. */
export function invalidFilter(message: string, cause?: unknown): AppError {
  return new AppError('invalid_filter', message, {
    errors: [{ path: '/filter_sql', message }],
    ...(cause === undefined ? {} : { cause }),
  })
}

/** The 400 for a construct that is not in the allow-list. */
export function notAllowed(construct: string): AppError {
  return invalidFilter(`filter_sql has ${construct}, which is not allowed. ${allowed}`)
}

const quotedMax = 48

/** A name or piece of the caller's text, short enough for a message. */
export function quoted(text: string): string {
  const characters = Array.from(text)
  return JSON.stringify(characters.length > quotedMax ? `${characters.slice(0, quotedMax).join('')}…` : text)
}

/**
 * Faults of a filter that only running it shows, such as a literal that cannot be read as the type it is compared with.
 */
const filterStates: Record<string, string> = {
  '22P02': 'a literal cannot be read as the type that it is compared with or cast to.',
  '22007': 'a literal is no date or time that can be read.',
  '22008': 'a literal is a date or time that is out of range.',
  '22003': 'a number is out of the range of its type.',
  '22025': 'a LIKE pattern ends with a backslash: write \\\\ for one backslash.',
  '22021': 'a literal has a character that the database cannot hold.',
}
/** Operands whose types do not match, or an expression that is too complex for the engine. */
const filterClasses = /^(22|428|42725|42P18|42P08|42P2[12]|54)/
const changedStates = new Set(['42P01', '42703', '3F000'])
/** The server is overloaded or was stopped: another try may succeed. */
const passingStates = /^(53|40|55P03|57)/

/** True when a table or column of the catalogue is gone: the catalogue was read before it changed. */
export function isChangedTable(error: unknown): boolean {
  return changedStates.has(sqlState(error) ?? '')
}

export function isTimeout(error: unknown): boolean {
  return sqlState(error) === '57014'
}

/** A `limited` condition took longer than it may: nothing else in a condition divides by zero. */
export function isOverLimit(error: unknown): boolean {
  return sqlState(error) === '22012'
}

export function queryTimeout(timeoutMs: number, cause?: unknown): AppError {
  const message = `The search took longer than ${timeoutMs / 1_000} s: narrow filter_sql, or try again.`
  return new AppError('query_timeout', message, { retryAfter: 1, ...(cause === undefined ? {} : { cause }) })
}

/** What the caller gets for a fault of the statement; the engine's own text stays in `cause`. */
export function problemOf(error: unknown, hasFilter: boolean, timeoutMs: number): unknown {
  const state = sqlState(error)
  if (state === undefined || error instanceof AppError) return error
  if (isTimeout(error)) return queryTimeout(timeoutMs, error)
  if (isOverLimit(error)) {
    const message = 'filter_sql takes too long on a row of the table: use shorter patterns or fewer of them.'
    return new AppError('query_timeout', message, { retryAfter: 1, cause: error })
  }
  if (hasFilter && filterClasses.test(state)) {
    const reason = filterStates[state] ?? 'the types of its operands do not match.'
    return invalidFilter(`filter_sql cannot be run: ${reason}`, error)
  }
  if (!passingStates.test(state)) return error
  return new AppError('relational_engine_unavailable', 'The relational engine does not answer.', {
    retryAfter: 1,
    cause: error,
  })
}
