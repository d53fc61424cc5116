/** The checked form of a filter: whatever can be written in these types may run. */

import type { Column } from './columns.ts'

export type CastType = 'text' | 'int2' | 'int4' | 'int8' | 'float4' | 'float8' | 'bool' | 'timestamptz'

/** The type that PostgreSQL gives a constant: `unknown` becomes what stands beside it. */
export type LiteralType = 'unknown' | 'int4' | 'int8' | 'numeric' | 'bool'

export interface Literal {
  kind: 'literal'
  /** The value in PostgreSQL's text form. */
  value: string | null
  type: LiteralType
  castTo?: CastType
}

export type Operand = Literal | { kind: 'column'; column: Column }

export type Comparison = '=' | '<>' | '<' | '<=' | '>' | '>='
export type Likeness = 'LIKE' | 'NOT LIKE' | 'ILIKE' | 'NOT ILIKE'

export type Condition =
  | { kind: 'and' | 'or'; parts: Condition[] }
  | { kind: 'not'; part: Condition }
  | { kind: 'truth'; operand: Operand }
  | { kind: 'null'; negated: boolean; operand: Operand }
  | { kind: 'compare'; operator: Comparison | Likeness; left: Operand; right: Operand }
  | { kind: 'between'; negated: boolean; operand: Operand; low: Operand; high: Operand }
  | { kind: 'in'; negated: boolean; operand: Operand; items: Operand[] }
  | { kind: 'any'; element: Operand; array: Column }
