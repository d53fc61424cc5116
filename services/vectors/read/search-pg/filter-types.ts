/**
 * The checked form of a filter: columns with what may be done to them, literals with the type that PostgreSQL gives them,
 * conditions.
 */

import { invalidFilter, notAllowed, quoted } from './faults.ts'
import { nameOfConstruct, nodeOf, type SqlNode, textsOf } from './filter-parser.ts'

/** Values of one family compare with each other; `opaque` ones only with nothing (IS NULL). */
export type Family = 'text' | 'number' | 'bool' | 'time' | 'uuid' | 'json' | 'array' | 'opaque'

export interface Column {
  name: string
  /** The type's name in pg_type, for example `text` or `_text` (an array of it). */
  type: string
  /** Alias of its table in the statement. */
  alias: string
}

const families: Record<string, Family> = {
  text: 'text',
  varchar: 'text',
  bpchar: 'text',
  int2: 'number',
  int4: 'number',
  int8: 'number',
  float4: 'number',
  float8: 'number',
  numeric: 'number',
  bool: 'bool',
  timestamptz: 'time',
  timestamp: 'time',
  date: 'time',
  uuid: 'uuid',
  jsonb: 'json',
}

/** The families in messages to callers. */
export const familyNames: Record<Family, string> = {
  text: 'text',
  number: 'a number',
  bool: 'true or false',
  time: 'a time',
  uuid: 'a uuid',
  json: 'JSON',
  array: 'an array',
  opaque: 'of a type that a filter cannot compare',
}

export function familyOf(column: Column): Family {
  if (Object.hasOwn(families, column.type)) return families[column.type]!
  return elementFamily(column) === undefined ? 'opaque' : 'array'
}

/** Family of an array column's elements; undefined when a filter cannot look into the column. */
export function elementFamily(column: Column): Family | undefined {
  const element = column.type.slice(1)
  return column.type.startsWith('_') && Object.hasOwn(families, element) ? families[element] : undefined
}

/** Quotes an identifier of SQL. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Names of pg_type (which `integer`, `double precision` and the like arrive as) that a literal may be cast to. */
const castTypes = ['text', 'int2', 'int4', 'int8', 'float4', 'float8', 'bool', 'timestamptz'] as const
type CastType = (typeof castTypes)[number]

/** The type that PostgreSQL gives a constant: `unknown` takes the type of the other operand. */
type LiteralType = 'unknown' | 'int4' | 'int8' | 'numeric' | 'bool'

export interface Literal {
  kind: 'literal'
  /** The value in PostgreSQL's text form. */
  value: string | null
  type: LiteralType
  castTo?: CastType
}

export function isLikeness(operator: Comparison | Likeness): operator is Likeness {
  return operator.endsWith('LIKE')
}

export type Operand = Literal | { kind: 'column'; column: Column }

export type Comparison = '=' | '<>' | '<' | '<=' | '>' | '>='
export type Likeness = 'LIKE' | 'NOT LIKE' | 'ILIKE' | 'NOT ILIKE'

export interface Comparing {
  operator: Comparison | Likeness
  left: Operand
  right: Operand
}

export type Condition =
  | { kind: 'and' | 'or'; parts: Condition[] }
  | { kind: 'not'; part: Condition }
  | { kind: 'truth'; operand: Operand }
  | { kind: 'null'; negated: boolean; operand: Operand }
  | ({ kind: 'compare' } & Comparing)
  | { kind: 'between'; negated: boolean; operand: Operand; low: Operand; high: Operand }
  | { kind: 'in'; negated: boolean; operand: Operand; items: Operand[] }
  | { kind: 'any'; element: Operand; array: Column }

const numberTypes: ReadonlySet<string> = new Set(['int2', 'int4', 'int8', 'float4', 'float8'])

/** Throws AppError `invalid_filter` for kinds of constants that are not allowed. */
export function literalOf(fields: Record<string, unknown>): Literal {
  if (fields.isnull === true) return { kind: 'literal', value: null, type: 'unknown' }
  // Zero, '' and false are left out by the parser.
  const given = (name: string) => (fields[name] as Record<string, unknown>)[name]
  if (fields.sval !== undefined) return literal(String(given('sval') ?? ''), 'unknown')
  if (fields.ival !== undefined) return literal(String(given('ival') ?? 0), 'int4')
  if (fields.boolval !== undefined) return literal(String(given('boolval') ?? false), 'bool')
  if (fields.fval !== undefined) return numberOf(String(given('fval')))
  throw notAllowed('a bit string')
}

/** A cast of a literal; throws AppError `invalid_filter` for every other one. */
export function castOf(node: SqlNode): Literal {
  const argument = nodeOf(node.fields.arg)
  const type = node.fields.typeName as Record<string, unknown>
  const target = castTypeOf(type)
  if (argument.kind === 'TypeCast') throw notAllowed('a cast of a cast')
  if (argument.kind !== 'A_Const') throw notAllowed(nameOfConstruct(node))
  const constant = literalOf(argument.fields)
  if (!canCast(constant.type, target)) {
    throw invalidFilter(`filter_sql casts ${shown(constant)} to ${target}: PostgreSQL has no such cast.`)
  }
  return { ...constant, castTo: target }
}

/** undefined for null and plain strings, which take the type of the other operand. */
export function familyOfLiteral({ type, castTo }: Literal): Family | undefined {
  if (castTo !== undefined) {
    if (numberTypes.has(castTo)) return 'number'
    return castTo === 'timestamptz' ? 'time' : (castTo as 'text' | 'bool')
  }
  if (type === 'unknown') return undefined
  return type === 'bool' ? 'bool' : 'number'
}

export function shown({ value, type }: Literal): string {
  if (value === null) return 'NULL'
  return type === 'unknown' ? quoted(value) : value
}

function literal(value: string, type: LiteralType): Literal {
  return { kind: 'literal', value, type }
}

/**
 * Numbers that are no int4 to the lexer: the smallest of int4, int8 and numeric that holds them, as in make_const().
 */
function numberOf(text: string): Literal {
  const plain = text.replaceAll('_', '')
  const [, sign, digits] = /^(-?)(\d+|0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+)$/.exec(plain) ?? []
  if (digits === undefined) return literal(plain, 'numeric')
  const value = BigInt(digits) * (sign === '-' ? -1n : 1n)
  return literal(String(value), BigInt.asIntN(32, value) === value ? 'int4' : typeOfBig(value))
}

function typeOfBig(value: bigint): LiteralType {
  return BigInt.asIntN(64, value) === value ? 'int8' : 'numeric'
}

function castTypeOf(type: Record<string, unknown>): CastType {
  const names = textsOf(type.names)
  const name = names.at(-1) ?? ''
  const isPlain =
    (names.length === 1 || (names.length === 2 && names[0] === 'pg_catalog')) &&
    type.arrayBounds === undefined &&
    type.typmods === undefined &&
    type.setof === undefined &&
    type.pct_type === undefined
  if (isPlain && castTypes.includes(name as CastType)) return name as CastType
  const detail = type.arrayBounds === undefined ? (type.typmods === undefined ? '' : '(n)') : '[]'
  throw notAllowed(`a cast to ${quoted(name)}${detail}`)
}

/** Casts that PostgreSQL has between a constant's type and these. */
function canCast(from: LiteralType, to: CastType): boolean {
  if (from === 'unknown' || to === 'text') return true
  if (from === 'bool') return to === 'bool' || to === 'int4'
  if (to === 'bool') return from === 'int4'
  return numberTypes.has(to)
}
