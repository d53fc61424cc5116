/** Compiles a filter_sql: parses it, checks it, and writes SQL of our own with every literal as a parameter. */

import { LRUCache } from 'lru-cache'
import type { SqlValue } from '#engines/relational/port.ts'
import { type Columns, checkFilter } from './filter-checker.ts'
import { loadFilterParser } from './filter-parser.ts'
import {
  type Column,
  type Comparing,
  type Condition,
  familyOf,
  isLikeness,
  type Literal,
  type Operand,
  quoteName,
} from './filter-types.ts'
import { joinedAlias, tableAlias } from './tables.ts'

/** Filters whose emitted form is kept, each of at most a few KiB. */
const keptMax = 500

export type FilterCompiler = Awaited<ReturnType<typeof loadFilterCompiler>>

/**
 * Loads the parser. The same text over the same `columns` object is compiled once. `limited`: the emitted text ends by
 * itself when it takes too long (see `EmittedFilter`), for an engine that cannot end a statement.
 */
export async function loadFilterCompiler(limited = false) {
  const parse = await loadFilterParser()
  const kept = new LRUCache<string, { columns: Columns; names: StoredNames; emitted: EmittedFilter }>({
    max: keptMax,
  })
  /** Throws AppError `invalid_filter` for everything that the allow-list does not have. */
  return (text: string, columns: Columns, names?: StoredNames): EmittedFilter => {
    const found = kept.get(text)
    if (found?.columns === columns && found.names === names) return found.emitted
    const emitted = emitFilter(checkFilter(parse(text), columns), limited, names)
    kept.set(text, { columns, names, emitted })
    return emitted
  }
}

/**
 * Where collections have other names in the table than for callers: by name. A condition speaks of callers' names,
 * and equality is asked of the stored ones, so that the planner knows how many rows it lets through.
 */
type StoredNames = ReadonlyMap<string, { stored: string }> | undefined

export interface EmittedFilter {
  /** In parentheses; refers to its parameters from `$1` on. */
  sql: string
  params: SqlValue[]
  /** Columns that it names. */
  columns: Column[]
  /**
   * The first parameter is the time that a statement with this condition may take, as an interval. Past it, or at a text
   * that is too long for the pattern it is matched with, the statement fails with SQLSTATE 22012.
   */
  limited: boolean
}

/** All of the result is written here, except the names of columns, which come from the catalogue. */
function emitFilter(condition: Condition, limited: boolean, names: StoredNames): EmittedFilter {
  const limits = limited && canBeSlow(condition)
  const params: SqlValue[] = limits ? [null] : []
  const columns: Column[] = []

  function asStored(column: Column): string {
    columns.push(column)
    return `${quoteName(column.alias)}.${quoteName(column.name)}`
  }
  function reference(column: Column): string {
    return names && isCollectionName(column)
      ? `pg_catalog.split_part(${asStored(column)}, '~', 1)`
      : asStored(column)
  }
  /** Null where it is no equality of a collection with names. */
  function storedNames(operator: string, sought: Operand, items: readonly Operand[]): string | null {
    if (!names || !['=', '<>'].includes(operator)) return null
    if (sought.kind !== 'column' || !isCollectionName(sought.column)) return null
    const values = items.flatMap((item) => nameIn(item) ?? [])
    if (values.length < items.length) return null
    const column = asStored(sought.column)
    // No name has the mark of a making.
    const places = values.map((value) =>
      params.push(names.get(value)?.stored ?? (value.includes('~') ? '' : value)),
    )
    const list = places.map((place) => `$${place}`).join(', ')
    return `${column} ${operator === '=' ? 'in' : 'not in'} (${list})`
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
        return `(${comparison(given)})`
      case 'between':
        return between(given)
      case 'in':
        return listed(given)
      case 'any':
        return `(${operand(given.element)} = any(${within(reference(given.array))}))`
    }
  }
  /** The value while the statement is within its limits, which is asked for each row before the value is looked at. */
  function within(value: string, fits = 'true'): string {
    if (!limits) return value
    const inTime = `pg_catalog.clock_timestamp() < pg_catalog.statement_timestamp() + $1::pg_catalog.interval`
    return `(case when 1 / (case when ${inTime} and ${fits} then 1 else 0 end) = 1 then ${value} end)`
  }
  function comparison({ operator, left, right }: Comparing): string {
    const named = storedNames(operator, left, [right]) ?? storedNames(operator, right, [left])
    if (named) return named
    const sides = [operand(left), operand(right)] as const
    const slow = slowSide({ operator, left, right })
    const fits = isLikeness(operator) ? quickMatch(...sides) : 'true'
    const [one, other] = sides.map((side, at) => (at === slow ? within(side, fits) : side))
    return `${one} ${operator.toLowerCase()} ${other}`
  }
  /** As PostgreSQL reads it: two comparisons, each with types of its own. */
  function between({ negated, operand: middle, low, high }: Condition & { kind: 'between' }): string {
    const [least, most, both] = negated ? (['<', '>', 'or'] as const) : (['>=', '<=', 'and'] as const)
    const first = comparison({ operator: least, left: middle, right: low })
    return `(${first} ${both} ${comparison({ operator: most, left: middle, right: high })})`
  }

  /** As PostgreSQL reads it: literals take one common type, columns are compared one by one. */
  function listed({ negated, operand: sought, items }: Condition & { kind: 'in' }): string {
    const literals = items.filter((item) => item.kind === 'literal')
    const own = items.filter((item) => item.kind === 'column')
    const list = () => {
      const named = storedNames(negated ? '<>' : '=', sought, literals)
      if (named) return named
      const left = operand(sought)
      const value = isSlowList(sought, literals.length) ? within(left) : left
      return `${value} ${negated ? 'not in' : 'in'} (${literals.map((item) => operand(item)).join(', ')})`
    }
    const operator = negated ? '<>' : '='
    const comparisons = own.map((item) => comparison({ operator, left: sought, right: item }))
    const parts = literals.length > 0 ? [list(), ...comparisons] : comparisons
    return `(${parts.join(negated ? ' and ' : ' or ')})`
  }

  return { sql: emit(condition), params, columns, limited: limits }
}

/** A `limited` condition for a statement that may take so long. */
export function withTimeLimit(filter: EmittedFilter, ms: number): EmittedFilter {
  return { ...filter, params: [`${Math.ceil(ms)} milliseconds`, ...filter.params.slice(1)] }
}

/**
 * Bytes of a text times bytes of the pattern, which is what matching may take in steps at worst: some tens of
 * milliseconds.
 */
const matchStepsMax = 16_000_000

function quickMatch(text: string, pattern: string): string {
  const bytes = [text, pattern].map(
    (one) => `pg_catalog.octet_length(${one}::pg_catalog.text)::pg_catalog.int8`,
  )
  return `coalesce(${bytes.join(' * ')}, 0) <= ${matchStepsMax}`
}

function typed(expression: string, type: string | undefined): string {
  return type === undefined ? expression : `${expression}::pg_catalog.${type}`
}

/** A longer list of literals is looked up by hash, which reads all of the value. */
const comparedOneByOne = 8

/** Which side of a comparison, 0 or 1, has the values that may take long; undefined: none does. */
function slowSide({ operator, left, right }: Comparing): 0 | 1 | undefined {
  const columns = [left, right].filter((side) => side.kind === 'column')
  // Texts of other lengths are unequal at once, and literals are short.
  const isQuick = columns.length < 2 && ['=', '<>'].includes(operator) && !columns.some(isJson)
  if (isQuick) return undefined
  const takesTime = isLikeness(operator) ? isColumn : isLong
  if (takesTime(left)) return 0
  return takesTime(right) ? 1 : undefined
}

/** Whether looking `sought` up among so many literals may take long. */
function isSlowList(sought: Operand, literals: number): boolean {
  return isLong(sought) && literals > (isJson(sought) ? 0 : comparedOneByOne)
}

/** Whether anything in the condition may take long. */
function canBeSlow(condition: Condition): boolean {
  switch (condition.kind) {
    case 'and':
    case 'or':
      return condition.parts.some(canBeSlow)
    case 'not':
      return canBeSlow(condition.part)
    case 'any':
      return true
    case 'compare':
      return isSlow(condition.operator, condition.left, condition.right)
    case 'between':
      return [condition.low, condition.high].some((side) => isSlow('<=', condition.operand, side))
    case 'in': {
      const columns = condition.items.filter(isColumn)
      const literals = condition.items.length - columns.length
      const inColumns = columns.some((item) => isSlow('=', condition.operand, item))
      return inColumns || isSlowList(condition.operand, literals)
    }
    default:
      return false
  }
}

function isSlow(operator: Comparing['operator'], left: Operand, right: Operand): boolean {
  return slowSide({ operator, left, right }) !== undefined
}

/** The column of the platform's own table that names a row's collection. */
function isCollectionName({ alias, name }: Column): boolean {
  return alias === tableAlias && name === 'collection'
}

/** The text that a literal is. */
function nameIn(operand: Operand): string | undefined {
  if (operand.kind !== 'literal' || operand.value === null || operand.type !== 'unknown') return undefined
  return operand.castTo === undefined || operand.castTo === 'text' ? operand.value : undefined
}

function isColumn(operand: Operand): boolean {
  return operand.kind === 'column'
}

/** Keys are short: an id has at most 512 characters. */
function isLong(operand: Operand): boolean {
  if (operand.kind !== 'column' || operand.column.alias !== joinedAlias) return false
  return ['text', 'json', 'array'].includes(familyOf(operand.column))
}

function isJson(operand: Operand): boolean {
  return operand.kind === 'column' && familyOf(operand.column) === 'json'
}
