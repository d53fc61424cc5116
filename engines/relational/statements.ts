/**
 * What both drivers do with statements: values as PostgreSQL's text and back, so that they agree; the names under which they
 * are prepared; transactions; and rows in the binary COPY format, for which pg has no encoder (postgresql.org/docs: COPY).
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import { LRUCache } from 'lru-cache'
import { toSql } from 'pgvector'
import type {
  CopyColumn,
  CopyType,
  CopyValue,
  SqlExecutor,
  SqlResult,
  SqlTransaction,
  SqlValue,
} from './port.ts'

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
  if (value instanceof Float32Array) return toSql([...value])
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
  1009: arrayOf(String),
  1015: arrayOf(String),
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

/** Texts that are remembered; filters make new ones without end. */
const textsMax = 500

export type StatementNames = ReturnType<typeof createStatementNames>

/** Calls `forgotten` with each name that is not given any more. */
export function createStatementNames(forgotten?: (name: string) => void) {
  /** Null: seen once. */
  const names = new LRUCache<string, { name: string | null }>({
    max: textsMax,
    dispose: ({ name }) => name !== null && forgotten?.(name),
  })
  let made = 0
  return {
    /** Undefined at a text's first use: most of those that callers write are never seen again. */
    of(text: string): string | undefined {
      const known = names.get(text)
      if (known === undefined) {
        names.set(text, { name: null })
        return undefined
      }
      // Never one that was given before: a connection may have it for another text.
      if (known.name === null) known.name = `s${++made}`
      return known.name
    },
    /** Gives the text another name: the statement prepared under this one does not fit the tables any more. */
    renew(text: string): void {
      names.set(text, { name: null })
    },
  }
}

export interface OpenTransaction {
  query: SqlExecutor['query']
  copy: SqlTransaction['copy']
  /** Resolves with the command tag: `ROLLBACK` when a statement had failed before. */
  commit(): Promise<string>
  rollback(): Promise<void>
}

export function createTransactionGuard() {
  const storage = new AsyncLocalStorage<{ open: boolean }>()

  /** Throws inside of `run`: on the embedded engine the call would wait for its own transaction for ever. */
  function assertOutside(): void {
    if (storage.getStore()?.open) {
      throw new Error(
        'Inside a transaction only its tx may be used: the port itself would wait for it for ever',
      )
    }
  }

  return {
    assertOutside,
    async run<T>(open: () => Promise<OpenTransaction>, work: (tx: SqlTransaction) => Promise<T>): Promise<T> {
      assertOutside()
      const transaction = await open()
      // What `work` left running may use the port again: the mark ends with the transaction.
      const mark = { open: true }
      const { tx, settled } = createExecutor(transaction, mark)
      try {
        const value = await storage.run(mark, () => work(tx))
        mark.open = false
        await settled()
        if ((await transaction.commit()) === 'ROLLBACK') {
          throw new Error('The transaction was rolled back: a statement failed and work went on regardless')
        }
        return value
      } catch (error) {
        mark.open = false
        await settled()
        await transaction.rollback()
        throw error
      }
    },
  }
}

/** Statements run one after the other, also when work does not wait for each. */
function createExecutor(transaction: OpenTransaction, mark: { open: boolean }) {
  let last: Promise<unknown> = Promise.resolve()
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (!mark.open) return Promise.reject(new Error('The transaction has ended'))
    const run = last.then(work)
    last = run.catch(() => {})
    return run
  }
  const tx: SqlTransaction = {
    query: <Row>(text: string, params?: Parameters<SqlExecutor['query']>[1]) =>
      inTurn(() => transaction.query<Row>(text, params)),
    copy: (table, columns, rows) => inTurn(() => transaction.copy(table, columns, rows)),
  }
  return { tx, settled: () => last }
}

/** With flags and length of the header's extension: none. */
export const copyHeader = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)])
/** A field count of -1 ends the data. */
export const copyTrailer = Buffer.from([0xff, 0xff])

/** COPY statement for rows in the binary format. `source` is STDIN or a file in quotes. */
export function copyStatement(table: string, columns: CopyColumn[], source: string): string {
  const names = columns.map((column) => quoteIdentifier(column.name)).join(', ')
  return `copy ${table.split('.').map(quoteIdentifier).join('.')} (${names}) from ${source} with (format binary)`
}

/**
 * Rows as chunks of about `chunkBytes`, each a whole number of rows (one chunk at least), without header and trailer, in
 * parts that belong one behind the other.
 */
export function* copyChunks(
  columns: CopyColumn[],
  rows: Iterable<CopyValue[]>,
  chunkBytes: number,
): Generator<{ parts: Buffer[]; rows: number }> {
  let parts: Buffer[] = []
  let bytes = 0
  let count = 0
  let yielded = false
  for (const row of rows) {
    bytes += encodeRow(columns, row, parts)
    count++
    if (bytes < chunkBytes) continue
    yield { parts, rows: count }
    yielded = true
    parts = []
    bytes = 0
    count = 0
  }
  if (count > 0 || !yielded) yield { parts, rows: count }
}

/** Adds a row's parts to those of its chunk; their size. */
function encodeRow(columns: CopyColumn[], row: CopyValue[], parts: Buffer[]): number {
  const count = Buffer.allocUnsafe(2)
  count.writeInt16BE(columns.length)
  parts.push(count)
  let bytes = count.length
  columns.forEach(({ type }, index) => {
    const value = row[index] ?? null
    // A row's values are of its columns' types, which TypeScript cannot follow through the table of encoders.
    const field = value === null ? null : encoders[type](value as never)
    parts.push(int32(field === null ? -1 : field.length))
    if (field !== null) parts.push(field)
    bytes += 4 + (field?.length ?? 0)
  })
  return bytes
}

const encoders: Record<CopyType, (value: never) => Buffer> = {
  text: (value: string) => Buffer.from(value, 'utf8'),
  timestamptz(value: Date) {
    const buffer = Buffer.allocUnsafe(8)
    buffer.writeBigInt64BE(BigInt(value.getTime() - millennium) * 1000n)
    return buffer
  },
  // The leading 1 is the version of jsonb's binary form.
  jsonb: (value: unknown) => Buffer.concat([Buffer.from([1]), Buffer.from(JSON.stringify(value), 'utf8')]),
  'text[]': textArray,
  vector: vectorBytes,
}

/** timestamptz counts microseconds since 2000-01-01. */
const millennium = Date.UTC(2000, 0, 1)
const textOid = 25

function textArray(values: string[]): Buffer {
  const elements = values.map((value) => Buffer.from(value, 'utf8'))
  // Dimensions, "has nulls", element type; then size and lower bound of the one dimension.
  const head = Buffer.alloc(elements.length === 0 ? 12 : 20)
  head.writeInt32BE(elements.length === 0 ? 0 : 1, 0)
  head.writeInt32BE(textOid, 8)
  if (elements.length > 0) {
    head.writeInt32BE(elements.length, 12)
    head.writeInt32BE(1, 16)
  }
  return Buffer.concat([head, ...elements.flatMap((element) => [int32(element.length), element])])
}

function int32(value: number): Buffer {
  const buffer = Buffer.allocUnsafe(4)
  buffer.writeInt32BE(value)
  return buffer
}

/** pgvector's form: int16 dimension, int16 0, float32 big-endian each. */
export function vectorBytes(value: Float32Array): Buffer {
  const buffer = Buffer.allocUnsafe(4 + value.byteLength)
  buffer.writeInt16BE(value.length, 0)
  buffer.writeInt16BE(0, 2)
  buffer.set(new Uint8Array(value.buffer, value.byteOffset, value.byteLength), 4)
  buffer.subarray(4).swap32()
  return buffer
}

/** Quotes an identifier of SQL. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
