/** Compiles a filter_sql: parses it, checks it, and writes SQL of our own with every literal as a parameter. */

import { LRUCache } from 'lru-cache'
import { type Columns, checkFilter } from './filter-checker.ts'
import { loadFilterParser } from './filter-parser.ts'
import { type Column, type Condition, type Literal, type Operand, quoteName } from './filter-types.ts'

/** Filters whose emitted form is kept, each of at most a few KiB. */
const keptMax = 500

/** Throws AppError `invalid_filter` for everything that the allow-list does not have. */
export type FilterCompiler = (text: string, columns: Columns) => EmittedFilter

/** Loads the parser. The same text over the same `columns` object is compiled once. */
export async function loadFilterCompiler(): Promise<FilterCompiler> {
  const parse = await loadFilterParser()
  const kept = new LRUCache<string, { columns: Columns; emitted: EmittedFilter }>({ max: keptMax })
  return (text, columns) => {
    const found = kept.get(text)
    if (found?.columns === columns) return found.emitted
    const emitted = emitFilter(checkFilter(parse(text), columns))
    kept.set(text, { columns, emitted })
    return emitted
  }
}

export interface EmittedFilter {
  /** In parentheses; refers to its parameters from `$1` on. */
  sql: string
  params: (string | null)[]
  /** Columns that it names. */
  columns: Column[]
}

/** All of the result is written here, except the names of columns, which come from the catalogue. */
function emitFilter(condition: Condition): EmittedFilter {
  const params: (string | null)[] = []
  const columns: Column[] = []

  function reference(column: Column): string {
    columns.push(column)
    return `${quoteName(column.alias)}.${quoteName(column.name)}`
  }
  /**
   * A string without a cast stays a bare parameter, whose type PostgreSQL takes from the other operand by the same
   * rules as for bare strings. `alone` is its type where there is no other operand.
   */
  function literal({ value, type, castTo }: Literal, alone?: string): string {
    params.push(value)
    const parameter = `$${params.length}`
    const own = type === 'unknown' ? undefined : type
    if (castTo === undefined) return typed(parameter, own ?? alone)
    // Other literals first get the type that PostgreSQL gives them: 1.5::int is 2, '1.5'::int is a fault.
    return typed(typed(parameter, own), castTo)
  }
  function operand(given: Operand, alone?: string): string {
    return given.kind === 'column' ? reference(given.column) : literal(given, alone)
  }
  function emit(given: Condition): string {
    switch (given.kind) {
      case 'and':
      case 'or':
        return `(${given.parts.map(emit).join(given.kind === 'and' ? ' and ' : ' or ')})`
      case 'not':
        return `(not ${emit(given.part)})`
      case 'truth':
        return `(${operand(given.operand, 'bool')})`
      case 'null':
        return `(${operand(given.operand, 'text')} is ${given.negated ? 'not ' : ''}null)`
      case 'compare':
        return `(${operand(given.left)} ${given.operator.toLowerCase()} ${operand(given.right)})`
      case 'between':
        return between(given)
      case 'in':
        return listed(given)
      case 'any':
        return `(${operand(given.element)} = any(${reference(given.array)}))`
    }
  }
  /** As PostgreSQL reads it: two comparisons, each with types of its own. */
  function between({ negated, operand: middle, low, high }: Condition & { kind: 'between' }): string {
    const [least, most, both] = negated ? ['<', '>', 'or'] : ['>=', '<=', 'and']
    const first = `${operand(middle)} ${least} ${operand(low)}`
    return `(${first} ${both} ${operand(middle)} ${most} ${operand(high)})`
  }

  /** As PostgreSQL reads it: literals take one common type, columns are compared one by one. */
  function listed({ negated, operand: sought, items }: Condition & { kind: 'in' }): string {
    const literals = items.filter((item) => item.kind === 'literal')
    const own = items.filter((item) => item.kind === 'column')
    const list = () => {
      const left = operand(sought)
      return `${left} ${negated ? 'not in' : 'in'} (${literals.map((item) => operand(item)).join(', ')})`
    }
    const comparisons = own.map((item) => `${operand(sought)} ${negated ? '<>' : '='} ${operand(item)}`)
    const parts = literals.length > 0 ? [list(), ...comparisons] : comparisons
    return `(${parts.join(negated ? ' and ' : ' or ')})`
  }

  return { sql: emit(condition), params, columns }
}

function typed(expression: string, type: string | undefined): string {
  return type === undefined ? expression : `${expression}::pg_catalog.${type}`
}
