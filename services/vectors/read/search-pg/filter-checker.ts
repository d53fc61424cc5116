/**
 * Checks the parser's tree against an allow-list and the table's columns: all that is not known to be allowed is
 * refused.
 */

import { invalidFilter, notAllowed, quoted } from './faults.ts'
import { nameOfConstruct, nodeOf, type SqlNode, textsOf } from './filter-parser.ts'
import {
  type Column,
  type Comparison,
  type Condition,
  castOf,
  elementFamily,
  type Family,
  familyNames,
  familyOf,
  familyOfLiteral,
  type Likeness,
  literalOf,
  type Operand,
  shown,
} from './filter-types.ts'

/** Levels of AND, OR and NOT. */
const depthMax = 64
const comparisons: ReadonlySet<string> = new Set(['=', '<>', '<', '<=', '>', '>='])
const likenesses: Record<string, Likeness> = {
  '~~': 'LIKE',
  '!~~': 'NOT LIKE',
  '~~*': 'ILIKE',
  '!~~*': 'NOT ILIKE',
}

export type Columns = ReadonlyMap<string, Column>

/** Throws AppError `invalid_filter` naming the first construct that is not allowed. */
export function checkFilter(node: SqlNode, columns: Columns): Condition {
  return condition(node, columns, 1)
}

function condition(node: SqlNode, columns: Columns, depth: number): Condition {
  if (depth > depthMax) throw notAllowed(`nesting deeper than ${depthMax} levels`)
  const { kind, fields } = node
  if (kind === 'BoolExpr') return boolean(fields, columns, depth)
  if (kind === 'A_Expr') return expression(node, columns)
  if (kind === 'NullTest') {
    const operand = operandOf(fields.arg, columns)
    return { kind: 'null', negated: fields.nulltesttype === 'IS_NOT_NULL', operand }
  }
  return truth(operand(node, columns))
}

function boolean(fields: Record<string, unknown>, columns: Columns, depth: number): Condition {
  const parts = (fields.args as unknown[]).map((part) => condition(nodeOf(part), columns, depth + 1))
  if (fields.boolop === 'NOT_EXPR') return { kind: 'not', part: parts[0]! }
  if (fields.boolop !== 'AND_EXPR' && fields.boolop !== 'OR_EXPR') throw notAllowed(String(fields.boolop))
  return { kind: fields.boolop === 'AND_EXPR' ? 'and' : 'or', parts }
}

/** A column or literal that is a condition by itself. */
function truth(operand: Operand): Condition {
  const isNull = operand.kind === 'literal' && operand.value === null && operand.castTo === undefined
  if (!isNull && familyOfOperand(operand) !== 'bool') {
    throw invalidFilter(
      `filter_sql has ${describe(operand)} where a condition must be: compare it with something.`,
    )
  }
  return { kind: 'truth', operand }
}

function expression(node: SqlNode, columns: Columns): Condition {
  const { fields } = node
  const names = textsOf(fields.name)
  const operator = names.length === 1 ? names[0]! : ''
  const sides = () => ({ left: operandOf(fields.lexpr, columns), right: operandOf(fields.rexpr, columns) })
  switch (fields.kind) {
    case 'AEXPR_OP':
      if (!comparisons.has(operator) || fields.lexpr === undefined) break
      return compared({ operator: operator as Comparison, ...sides() })
    case 'AEXPR_LIKE':
    case 'AEXPR_ILIKE':
      if (!Object.hasOwn(likenesses, operator) || nodeOf(fields.rexpr).kind === 'FuncCall') break
      return likened({ operator: likenesses[operator]!, ...sides() })
    case 'AEXPR_IN':
      return listed(operator === '<>', operandOf(fields.lexpr, columns), itemsOf(fields.rexpr, columns))
    case 'AEXPR_BETWEEN':
    case 'AEXPR_NOT_BETWEEN':
      return between(
        fields.kind === 'AEXPR_NOT_BETWEEN',
        operandOf(fields.lexpr, columns),
        itemsOf(fields.rexpr, columns),
      )
    case 'AEXPR_OP_ANY':
      if (operator !== '=') break
      return anyOf(operandOf(fields.lexpr, columns), operandOf(fields.rexpr, columns))
  }
  throw notAllowed(nameOfConstruct(node))
}

function operandOf(value: unknown, columns: Columns): Operand {
  return operand(nodeOf(value), columns)
}

function operand(node: SqlNode, columns: Columns): Operand {
  if (node.kind === 'A_Const') return literalOf(node.fields)
  if (node.kind === 'TypeCast') return castOf(node)
  if (node.kind === 'ColumnRef') return { kind: 'column', column: columnOf(node.fields, columns) }
  if (node.kind === 'BoolExpr' || node.kind === 'NullTest') {
    throw notAllowed('a condition where a column or literal must be')
  }
  if (node.fields.kind === 'AEXPR_OP' && comparisons.has(textsOf(node.fields.name)[0] ?? '')) {
    throw notAllowed('a comparison inside of another')
  }
  throw notAllowed(nameOfConstruct(node))
}

function columnOf(fields: Record<string, unknown>, columns: Columns): Column {
  const parts = (fields.fields as unknown[]).map(nodeOf)
  if (parts.some(({ kind }) => kind === 'A_Star')) throw notAllowed('*')
  if (parts.length > 1)
    throw invalidFilter('filter_sql names a column with its table in front: name the column alone.')
  const name = String(parts[0]!.fields.sval ?? '')
  const column = columns.get(name)
  if (column !== undefined) return column
  throw invalidFilter(
    `filter_sql names ${quoted(name)}, which is no column of the table: there are ${[...columns.keys()].join(', ')}.`,
  )
}

function itemsOf(value: unknown, columns: Columns): Operand[] {
  const list = nodeOf(value)
  if (list.kind !== 'List') throw notAllowed(nameOfConstruct(list))
  return (list.fields.items as unknown[]).map((item) => operandOf(item, columns))
}

function compared(given: { operator: Comparison; left: Operand; right: Operand }): Condition {
  assertComparable(given.left, given.right, given.operator === '=' || given.operator === '<>')
  return { kind: 'compare', ...given }
}

function likened(given: { operator: Likeness; left: Operand; right: Operand }): Condition {
  for (const operand of [given.left, given.right]) {
    const family = familyOfOperand(operand)
    if (family !== undefined && family !== 'text') {
      throw invalidFilter(`filter_sql uses ${given.operator} on ${describe(operand)}: it is for text alone.`)
    }
  }
  return { kind: 'compare', ...given }
}

function listed(negated: boolean, operand: Operand, items: Operand[]): Condition {
  for (const item of items) assertComparable(operand, item, true)
  // The literals of a list share one type, whatever the operand before IN is.
  const typed = items.filter((item) => item.kind === 'literal' && familyOfOperand(item) !== undefined)
  for (const item of typed) assertComparable(typed[0]!, item, true)
  return { kind: 'in', negated, operand, items }
}

function between(negated: boolean, operand: Operand, [low, high]: Operand[]): Condition {
  assertComparable(operand, low!, false)
  assertComparable(operand, high!, false)
  return { kind: 'between', negated, operand, low: low!, high: high! }
}

function anyOf(element: Operand, array: Operand): Condition {
  if (array.kind !== 'column') throw notAllowed('ANY of something that is no array column')
  const family = elementFamily(array.column)
  if (family === undefined) {
    throw invalidFilter(`filter_sql uses ANY on ${describe(array)}: it is for array columns alone.`)
  }
  const given = familyOfOperand(element)
  if (given !== undefined && given !== family) throw mismatch(element, array.column.name, `${family}s`)
  return { kind: 'any', element, array: array.column }
}

function assertComparable(left: Operand, right: Operand, isEquality: boolean): void {
  const families = [familyOfOperand(left), familyOfOperand(right)] as const
  for (const [at, family] of families.entries()) {
    const operand = at === 0 ? left : right
    if (family === 'array') {
      throw invalidFilter(
        `filter_sql compares ${describe(operand)}: write 'x' = ANY(column) to look into it.`,
      )
    }
    if (family === 'opaque' || (family === 'json' && !isEquality)) {
      throw invalidFilter(`filter_sql compares ${describe(operand)}, which has no such comparison here.`)
    }
  }
  if (families[0] === undefined || families[1] === undefined || families[0] === families[1]) return
  throw invalidFilter(
    `filter_sql compares ${describe(left)} with ${describe(right)}: write a literal of the column's type, such as '…' for text.`,
  )
}

function mismatch(element: Operand, array: string, holds: string): Error {
  return invalidFilter(`filter_sql looks for ${describe(element)} in ${quoted(array)}, which holds ${holds}.`)
}

function familyOfOperand(operand: Operand): Family | undefined {
  return operand.kind === 'column' ? familyOf(operand.column) : familyOfLiteral(operand)
}

function describe(operand: Operand): string {
  const family = familyOfOperand(operand)
  const is = family === undefined ? '' : ` (${familyNames[family]})`
  return operand.kind === 'column'
    ? `the column ${quoted(operand.column.name)}${is}`
    : `${shown(operand)}${is}`
}
