/**
 * Typed rows of SQLite: node:sqlite calls every row a record of unknown columns, because only the SQL text knows
 * them.
 */

import type { SQLInputValue, StatementSync } from 'node:sqlite'

/** All rows of a query, of which the caller says what its columns are. */
export function allRows<Row>(statement: StatementSync, ...params: SQLInputValue[]): Row[] {
  return statement.all(...params) as unknown[] as Row[]
}

/** As `allRows`, one after the other; also for statements that return arrays. */
export function eachRow<Row>(statement: StatementSync, ...params: SQLInputValue[]): Iterable<Row> {
  return statement.iterate(...params) as Iterable<unknown> as Iterable<Row>
}

/** The first row of a query, if it has one. */
export function firstRow<Row>(statement: StatementSync, ...params: SQLInputValue[]): Row | undefined {
  return statement.get(...params) as Row | undefined
}
