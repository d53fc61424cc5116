/**
 * Protects the decoder from damaged counts. avsc believes the number of entries that a map or array announces: a
 * damaged one of 2^40 would hold the process for hours. So the bytes of types that hold maps or arrays are walked once
 * before.
 */

import avro from 'avsc'

/** Throws an Error for the bytes from `at` on when they announce more entries, or longer ones, than there are bytes. */
export type CountCheck = (bytes: Buffer, at: number) => void

/** The check for values that were written as `type`; undefined where nothing in them is counted. */
export function countCheckOf(type: avro.Type): CountCheck | undefined {
  if (!holdsCounts(type, new Set())) return undefined
  return (bytes, at) => skipValue(type, { bytes, at })
}

/** Where bytes lie whose length comes first, at `at`. Throws an Error where they are cut short. */
export function boundsOfBytes(bytes: Buffer, at: number): { from: number; end: number } {
  const cursor = { bytes, at }
  const length = readLong(cursor)
  const from = cursor.at
  skipBytes(cursor, length)
  return { from, end: cursor.at }
}

/** The bytes and where the walk is in them. */
interface Cursor {
  readonly bytes: Buffer
  at: number
}

const { ArrayType, FixedType, MapType, RecordType, UnwrappedUnionType, WrappedUnionType } = avro.types

function holdsCounts(type: avro.Type, seen: Set<avro.Type>): boolean {
  if (type instanceof MapType || type instanceof ArrayType) return true
  if (seen.has(type)) return false
  seen.add(type)
  return partsOf(type).some((part) => holdsCounts(part, seen))
}

function partsOf(type: avro.Type): avro.Type[] {
  if (type instanceof RecordType) return type.fields.map((field) => field.type)
  if (type instanceof UnwrappedUnionType || type instanceof WrappedUnionType) return type.types
  return []
}

function skipValue(type: avro.Type, cursor: Cursor): void {
  if (type instanceof RecordType) {
    for (const field of type.fields) skipValue(field.type, cursor)
  } else if (type instanceof UnwrappedUnionType || type instanceof WrappedUnionType) {
    const branch = type.types[readLong(cursor)]
    if (!branch) throw cannotDecode('it names a branch that its union does not have')
    skipValue(branch, cursor)
  } else if (type instanceof ArrayType) {
    skipBlocks(cursor, () => skipValue(type.itemsType, cursor))
  } else if (type instanceof MapType) {
    skipBlocks(cursor, () => {
      skipBytes(cursor, readLong(cursor))
      skipValue(type.valuesType, cursor)
    })
  } else {
    skipBytes(cursor, plainSize(type, cursor))
  }
}

/** Entries come in blocks, the last of which is empty. A negative count is followed by the block's size in bytes. */
function skipBlocks(cursor: Cursor, skipEntry: () => void): void {
  for (let count = readLong(cursor); count !== 0; count = readLong(cursor)) {
    const size = count < 0 ? readLong(cursor) : undefined
    const begin = cursor.at
    if (Math.abs(count) > cursor.bytes.length - begin) {
      throw cannotDecode('it announces more entries than it has bytes')
    }
    for (let left = Math.abs(count); left > 0; left--) skipEntry()
    if (size !== undefined && size !== cursor.at - begin) {
      throw cannotDecode('it announces another size of its entries than they have')
    }
  }
}

/** Bytes of a value without parts, after the number that it may begin with. */
function plainSize(type: avro.Type, cursor: Cursor): number {
  if (type instanceof FixedType) return type.size
  switch (type.typeName) {
    case 'null':
      return 0
    case 'boolean':
      return 1
    case 'float':
      return 4
    case 'double':
      return 8
    case 'bytes':
    case 'string':
      return readLong(cursor)
    case 'int':
    case 'long':
    case 'enum':
      readLong(cursor)
      return 0
    default:
      throw cannotDecode(`its schema has the type ${type.typeName}`)
  }
}

function skipBytes(cursor: Cursor, length: number): void {
  if (length < 0 || length > cursor.bytes.length - cursor.at) throw cannotDecode('it is cut short')
  cursor.at += length
}

/** Avro's int and long: zigzag, seven bits in a byte, the lowest first. */
function readLong(cursor: Cursor): number {
  let raw = 0
  for (let factor = 1; ; factor *= 128) {
    const byte = cursor.bytes[cursor.at++]
    if (byte === undefined) throw cannotDecode('it is cut short')
    raw += (byte & 0x7f) * factor
    if (byte < 0x80) break
  }
  if (!Number.isFinite(raw)) throw cannotDecode('it has a number that is too long')
  return raw % 2 === 1 ? -(raw + 1) / 2 : raw / 2
}

function cannotDecode(reason: string): Error {
  return new Error(`The value cannot be decoded: ${reason}`)
}
