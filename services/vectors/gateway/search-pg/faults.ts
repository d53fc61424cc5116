/** A fault of a search's statement in, what its caller is told out; the engine's own text stays behind. */

import { sqlState } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { invalidFilter } from './filter-fault.ts'

/** A filter's literal that cannot be read as what it is compared with, and other faults that only running shows. */
const filterStates: Record<string, string> = {
  '22P02': 'a literal cannot be read as the type that it is compared with or cast to.',
  '22007': 'a literal is no date or time that can be read.',
  '22008': 'a literal is a date or time that is out of range.',
  '22003': 'a number is out of the range of its type.',
  '22025': 'a LIKE pattern ends with a backslash: write \\\\ for one backslash.',
  '22021': 'a literal has a character that the database cannot hold.',
}
/** Operands that do not fit each other, or an expression that is too much for the engine. */
const filterClasses = /^(22|428|42725|42P18|42P08|42P2[12]|54)/
const changedStates = new Set(['42P01', '42703', '3F000'])
/** Too much for the server at this moment, or it was told to stop: the next try may do. */
const passingStates = /^(53|40|55P03|57)/

/** A table or column that the catalogue had is gone: it was read before it changed. */
export function isChangedTable(error: unknown): boolean {
  return changedStates.has(sqlState(error) ?? '')
}

export function isTimeout(error: unknown): boolean {
  return sqlState(error) === '57014'
}

export function toldFault(error: unknown, hasFilter: boolean, timeoutMs: number): unknown {
  const state = sqlState(error)
  if (state === undefined || error instanceof AppError) return error
  if (isTimeout(error)) {
    return new AppError(
      'query_timeout',
      `The search took longer than ${timeoutMs / 1_000} s: narrow filter_sql, or try again.`,
      { retryAfter: 1, cause: error },
    )
  }
  if (hasFilter && filterClasses.test(state)) {
    const reason = filterStates[state] ?? 'its operands do not fit each other.'
    return invalidFilter(`filter_sql cannot be run: ${reason}`, error)
  }
  if (!passingStates.test(state)) return error
  return new AppError('relational_engine_unavailable', 'The relational engine does not answer.', {
    retryAfter: 1,
    cause: error,
  })
}
