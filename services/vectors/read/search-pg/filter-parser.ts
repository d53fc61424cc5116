/**
 * Reads the text of a filter_sql with PostgreSQL's own parser, after refusing forms that its tree would not show, and names
 * what a node of that tree is in SQL.
 */

import { describeError } from '#lib/errors.ts'
import { invalidFilter, notAllowed, quoted } from './faults.ts'

/** A node of the parser's tree: its kind, and its fields as JSON. Fields that have their zero value are left out. */
export interface SqlNode {
  kind: string
  fields: Record<string, unknown>
}

/**
 * Up to this length no nesting comes near the limit of the parser's stack, and any condition is parsed in milliseconds.
 */
const bytesMax = 4_096
const before = 'SELECT 1 FROM t WHERE '
const expected: Record<string, unknown> = {
  targetList: JSON.stringify([{ ResTarget: { val: { A_Const: { ival: { ival: 1 } } } } }]),
  fromClause: JSON.stringify([{ RangeVar: { relname: 't', inh: true, relpersistence: 'p' } }]),
  limitOption: JSON.stringify('LIMIT_OPTION_DEFAULT'),
  op: JSON.stringify('SETOP_NONE'),
}
const clauses: Record<string, string> = {
  sortClause: 'ORDER BY',
  limitOffset: 'OFFSET',
  limitCount: 'LIMIT',
  limitOption: 'FETCH … WITH TIES',
  groupClause: 'GROUP BY',
  havingClause: 'HAVING',
  windowClause: 'WINDOW',
  lockingClause: 'FOR UPDATE or another lock',
  op: 'UNION, INTERSECT or EXCEPT',
  larg: 'UNION, INTERSECT or EXCEPT',
}

/**
 * Loads the parser, which takes a few tens of milliseconds. What it returns throws AppError `invalid_filter` for texts
 * that are not one single condition; whether the condition is allowed is checked by filter-checker.ts.
 */
export async function loadFilterParser(): Promise<(text: string) => SqlNode> {
  const { default: library } = await import('libpg-query')
  await library.loadModule()

  function parse(text: string): Record<string, unknown> {
    try {
      // The line break ends a comment that would swallow the rest.
      return library.parseSync(`${before}${text}\n`) as Record<string, unknown>
    } catch (error) {
      throw syntaxFault(error, text)
    }
  }
  return (text) => {
    assertReadable(text)
    const form = forbiddenForm(text)
    if (form !== undefined) throw notAllowed(form)
    return conditionOf(parse(text))
  }
}

/** The one key of an object such as `{"ColumnRef": {…}}` and its value. */
export function nodeOf(value: unknown): SqlNode {
  const [kind, fields] = Object.entries(value as Record<string, Record<string, unknown>>)[0] ?? [
    'nothing',
    {},
  ]
  return { kind, fields }
}

function assertReadable(text: string): void {
  if (text.trim() === '') throw invalidFilter('filter_sql is empty: leave it out to search all rows.')
  if (Buffer.byteLength(text) > bytesMax) {
    throw invalidFilter(`filter_sql is longer than ${bytesMax} bytes.`)
  }
  if (text.includes('\0') || !text.isWellFormed()) {
    throw invalidFilter('filter_sql has NUL or half of a surrogate pair.')
  }
}

function conditionOf(tree: Record<string, unknown>): SqlNode {
  const statements = tree.stmts as { stmt: unknown; stmt_len?: number }[]
  if (statements.length !== 1) throw notAllowed('a second statement')
  const { kind, fields } = nodeOf(statements[0]!.stmt)
  if (kind !== 'SelectStmt') throw notAllowed('a statement of its own')
  for (const [name, value] of Object.entries(fields)) {
    if (name !== 'whereClause' && plainJson(value) !== expected[name]) {
      throw notAllowed(clauses[name] ?? `more than a condition (${name})`)
    }
  }
  if (fields.whereClause === undefined) throw notAllowed('UNION, INTERSECT or EXCEPT')
  return nodeOf(fields.whereClause)
}

function plainJson(value: unknown): string {
  return JSON.stringify(value, (key, inner) => (key === 'location' ? undefined : inner))
}

/** Names the position without the parser's text. Its cursor counts characters of the whole statement from 0. */
function syntaxFault(error: unknown, text: string): Error {
  const at = (error as { sqlDetails?: { cursorPosition?: number } }).sqlDetails?.cursorPosition
  if (at === undefined) {
    return /memory|call stack/i.test(describeError(error))
      ? notAllowed('nesting that is too deep')
      : invalidFilter('filter_sql is not valid SQL.', error)
  }
  const rest = Array.from(text).slice(Math.max(0, at - before.length))
  const where = rest.join('').trim() === '' ? 'at its end' : `near ${quoted(rest.join(''))}`
  return invalidFilter(`filter_sql is not a valid SQL condition: it breaks off ${where}.`)
}

/**
 * What the parser would read and the tree no longer shows: comments, and strings that say with escapes what they could
 * say plainly. Strings and names are passed over whole, so that nothing inside of them counts. A prefix of a string
 * belongs to the word before it otherwise: like'x' is LIKE and a plain string.
 */
const forms =
  /'(?:[^']|'')*'?|"(?:[^"]|"")*"?|--|\/\*|;|\\|(?<![\w$\u0080-\uffff])(?:\$\w*\$|[eE]'|[nN]'|[bB]'|[xX]'|[uU]&['"])/g

const names: Record<string, string> = {
  '--': 'a comment',
  '/*': 'a comment',
  ';': 'a semicolon',
  '\\': 'a backslash outside of a string',
  $: 'a dollar-quoted string',
  e: "a string with escapes (E'…')",
  n: "a national string (N'…')",
  b: "a bit string (B'…')",
  x: "a bit string (X'…')",
  u: 'unicode escapes (U&)',
}

/** Its name for people; undefined when the text is written plainly. */
function forbiddenForm(text: string): string | undefined {
  for (const [form] of text.matchAll(forms)) {
    if (form[0] === "'" || form[0] === '"') continue
    return names[form] ?? names[form[0]!.toLowerCase()]
  }
  return undefined
}

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
