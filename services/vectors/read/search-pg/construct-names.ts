/** Names of SQL constructs in messages: what a node of the parser's tree is called in SQL. */

import { quoted } from './faults.ts'
import { nodeOf, type SqlNode } from './filter-parser.ts'

const plain: Record<string, string> = {
  SubLink: 'a subquery',
  ParamRef: 'a parameter ($n)',
  CollateClause: 'COLLATE',
  RowExpr: 'a row (a, b)',
  CaseExpr: 'CASE',
  A_Indirection: 'a subscript, a slice or a field',
  A_Indices: 'a subscript',
  A_ArrayExpr: 'ARRAY[…]',
  A_Star: '*',
  CoalesceExpr: 'COALESCE',
  BooleanTest: 'IS TRUE, IS FALSE or IS UNKNOWN',
  SetToDefault: 'DEFAULT',
  CurrentOfExpr: 'CURRENT OF',
  GroupingFunc: 'GROUPING',
  NamedArgExpr: 'a named argument',
  MergeSupportFunc: 'MERGE_ACTION',
  TypeCast: 'a cast of something that is no literal',
}

/** Functions that the parser makes of special syntax. */
const syntaxFunctions: Record<string, string> = {
  like_escape: 'ESCAPE',
  similar_to_escape: 'SIMILAR TO',
  timezone: 'AT TIME ZONE',
  overlaps: 'OVERLAPS',
  is_normalized: 'IS NORMALIZED',
  extract: 'EXTRACT',
  position: 'POSITION',
  substring: 'SUBSTRING',
  overlay: 'OVERLAY',
  xmlexists: 'XMLEXISTS',
}

const kindsOfExpression: Record<string, string> = {
  AEXPR_OP_ALL: 'ALL',
  AEXPR_DISTINCT: 'IS DISTINCT FROM',
  AEXPR_NOT_DISTINCT: 'IS NOT DISTINCT FROM',
  AEXPR_NULLIF: 'NULLIF',
  AEXPR_SIMILAR: 'SIMILAR TO',
  AEXPR_BETWEEN_SYM: 'BETWEEN SYMMETRIC',
  AEXPR_NOT_BETWEEN_SYM: 'BETWEEN SYMMETRIC',
}

export function nameOfConstruct({ kind, fields }: SqlNode): string {
  if (Object.hasOwn(plain, kind)) return plain[kind]!
  if (kind === 'FuncCall') return nameOfFunction(fields)
  if (kind === 'A_Expr') return nameOfExpression(fields)
  if (kind === 'SQLValueFunction') return String(fields.op).replace('SVFOP_', '').replace(/_N$/, '')
  if (kind === 'MinMaxExpr') return fields.op === 'IS_LEAST' ? 'LEAST' : 'GREATEST'
  if (kind.startsWith('Json')) return 'a JSON function'
  if (kind.startsWith('Xml')) return 'an XML function'
  return `a construct of its own (${kind})`
}

/** Texts of a list such as `[{"String": {"sval": "="}}]`. */
export function textsOf(list: unknown): string[] {
  return ((list ?? []) as unknown[]).map((item) => String(nodeOf(item).fields.sval ?? ''))
}

function nameOfFunction(fields: Record<string, unknown>): string {
  const names = textsOf(fields.funcname)
  const name = names.at(-1) ?? ''
  if (fields.over !== undefined) return `a window function (${quoted(name)})`
  if (fields.funcformat === 'COERCE_SQL_SYNTAX' && Object.hasOwn(syntaxFunctions, name)) {
    return syntaxFunctions[name]!
  }
  if (names[0] === 'pg_catalog' && /_escape$/.test(name)) return syntaxFunctions[name] ?? 'ESCAPE'
  return `a function (${quoted(name)})`
}

function nameOfExpression(fields: Record<string, unknown>): string {
  const kind = String(fields.kind)
  if (Object.hasOwn(kindsOfExpression, kind)) return kindsOfExpression[kind]!
  // ESCAPE arrives as a function on the right side.
  const right = fields.rexpr === undefined ? undefined : nodeOf(fields.rexpr)
  if (/LIKE/.test(kind) && right?.kind === 'FuncCall') return nameOfConstruct(right)
  const names = textsOf(fields.name)
  if (names.length > 1) return 'OPERATOR(…) with a schema'
  const operator = names[0] ?? ''
  return fields.lexpr === undefined
    ? `the operator ${quoted(operator)} before an operand`
    : `the operator ${quoted(operator)}${kind === 'AEXPR_OP_ANY' ? ' with ANY' : ''}`
}
