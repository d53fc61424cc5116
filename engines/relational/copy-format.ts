/**
 * Encodes rows in PostgreSQL's binary COPY format (postgresql.org/docs: COPY, Binary Format). pg has no encoder for
 * it, and pg-copy-streams moves bytes but does not make them.
 */

import type { CopyColumn, CopyType, CopyValue } from './port.ts'

export const copyHeader = Buffer.concat([
  Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'),
  // Flags and length of the header's extension: none.
  Buffer.alloc(8),
])
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
    const field = encodeField(type, row[index] ?? null)
    parts.push(int32(field === null ? -1 : field.length))
    if (field !== null) parts.push(field)
    bytes += 4 + (field?.length ?? 0)
  })
  return bytes
}

function encodeField(type: CopyType, value: CopyValue): Buffer | null {
  // A row's values are of its columns' types, which TypeScript cannot follow through the table of encoders.
  return value === null ? null : encoders[type](value as never)
}

const encoders: Record<CopyType, (value: never) => Buffer> = {
  text: (value: string) => Buffer.from(value, 'utf8'),
  int8: (value: number) => int64(BigInt(value)),
  float8(value: number) {
    const buffer = Buffer.allocUnsafe(8)
    buffer.writeDoubleBE(value)
    return buffer
  },
  bool: (value: boolean) => Buffer.from([value ? 1 : 0]),
  timestamptz: (value: Date) => int64(BigInt(value.getTime() - millennium) * 1000n),
  // The leading 1 is the version of jsonb's binary form.
  jsonb: (value: unknown) => Buffer.concat([Buffer.from([1]), Buffer.from(JSON.stringify(value), 'utf8')]),
  'text[]': textArray,
  vector: vectorBytes,
}

/** timestamptz counts microseconds since 2000-01-01. */
const millennium = Date.UTC(2000, 0, 1)
const textOid = 25

function int64(value: bigint): Buffer {
  const buffer = Buffer.allocUnsafe(8)
  buffer.writeBigInt64BE(value)
  return buffer
}

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
