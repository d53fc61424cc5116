/**
 * Converts JavaScript values to PostgreSQL's text form and back. Both drivers send and read text, so that they
 * agree.
 */

import type { SqlResult, SqlValue } from './port.ts'

/** A statement's result as the engine gave it: every value as text. */
export interface TextResult {
  fields: { name: string; type: number }[]
  rows: (string | null)[][]
  rowCount: number
  /** Command tag without counts, for example `INSERT` or `ROLLBACK`. */
  command: string
}

/** Text of a parameter. Arrays become array literals; for a jsonb array pass its JSON as a string. */
export function toSqlText(value: SqlValue): string | null {
  if (value === null) return null
  if (typeof value === 'string') return value
  if (typeof value !== 'object') return String(value)
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Float32Array) return `[${value.join(',')}]`
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`
  if (Array.isArray(value)) return `{${value.map(elementText).join(',')}}`
  return JSON.stringify(value)
}

function elementText(value: SqlValue): string {
  if (Array.isArray(value)) return toSqlText(value) as string
  const text = toSqlText(value)
  return text === null ? 'NULL' : `"${text.replace(/["\\]/g, '\\$&')}"`
}

/** Rows as objects, values in the types that the port promises. */
export function fromTextResult<Row>(result: TextResult): SqlResult<Row> {
  const columns = result.fields.map(({ name, type }) => ({ name, parse: parsers[type] }))
  const rows = result.rows.map((values) => {
    const row: Record<string, unknown> = {}
    for (const [index, { name, parse }] of columns.entries()) {
      const text = values[index] as string | null
      row[name] = text === null || parse === undefined ? text : parse(text)
    }
    return row as Row
  })
  return { rows, rowCount: result.rowCount }
}

type Parse = (text: string) => unknown

const isTrue: Parse = (text) => text === 't'
const isText: Parse = (text) => text

/** By type oid (pg_type); a type that is not here comes as text: numeric, date, uuid, vector … */
const parsers: Record<number, Parse> = {
  16: isTrue,
  17: (text) => Buffer.from(text.slice(2), 'hex'),
  20: Number,
  21: Number,
  23: Number,
  26: Number,
  114: JSON.parse,
  700: Number,
  701: Number,
  1000: arrayOf(isTrue),
  1005: arrayOf(Number),
  1007: arrayOf(Number),
  1009: arrayOf(isText),
  1015: arrayOf(isText),
  1016: arrayOf(Number),
  1021: arrayOf(Number),
  1022: arrayOf(Number),
  1184: (text) => new Date(text),
  3802: JSON.parse,
}

/** Parser of one-dimensional array literals such as {a,"b,c",NULL}. */
function arrayOf(parse: Parse): Parse {
  return (text) => {
    const elements: unknown[] = []
    // Either a quoted element with escapes, or a bare one.
    for (const [, quoted, bare] of text.matchAll(/[{,](?:"((?:[^"\\]|\\.)*)"|([^{},"]+))/gs)) {
      if (quoted !== undefined) elements.push(parse(quoted.replace(/\\(.)/gs, '$1')))
      else elements.push(bare === 'NULL' ? null : parse(bare as string))
    }
    return elements
  }
}
