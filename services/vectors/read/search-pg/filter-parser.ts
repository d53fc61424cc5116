/** Reads the text of a filter_sql with PostgreSQL's own parser, after refusing forms that its tree would not show. */

import { describeError } from '#lib/errors.ts'
import { invalidFilter, notAllowed, quoted } from './faults.ts'

/** A node of the parser's tree: its kind, and its fields as JSON. Fields that have their zero value are left out. */
export interface SqlNode {
  kind: string
  fields: Record<string, unknown>
}

type FilterParser = (text: string) => SqlNode

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
export async function loadFilterParser(): Promise<FilterParser> {
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
