/** Types of filters: columns with what may be done to them, and the checked form of a condition. */

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

export type CastType = 'text' | 'int2' | 'int4' | 'int8' | 'float4' | 'float8' | 'bool' | 'timestamptz'

/** The type that PostgreSQL gives a constant: `unknown` takes the type of the other operand. */
export type LiteralType = 'unknown' | 'int4' | 'int8' | 'numeric' | 'bool'

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
