/** Avro values in the Confluent wire format: byte 0, the writer schema's id as int32 big-endian, the body. */

import avro from 'avsc'

export type Resolver = ReturnType<avro.Type['createResolver']>

const headerBytes = 5
/** Values up to this size are encoded into one reused buffer. */
const slabBytes = 64 * 1024
const slab = Buffer.allocUnsafe(slabBytes)

/** The Avro type of a schema text; every reader and writer of the platform parses schemas alike. */
export function parseAvro(text: string): avro.Type {
  return avro.Type.forSchema(JSON.parse(text) as avro.Schema, { omitRecordMethods: true })
}

/** Throws an Error that names the field which does not fit the schema. */
export function writeValue(type: avro.Type, id: number, value: unknown): Buffer {
  const end = type.encode(value, slab, headerBytes)
  if (end >= 0) {
    writeHeader(slab, id)
    const value = Buffer.allocUnsafe(end)
    slab.copy(value, 0, 0, end)
    return value
  }
  // The slab was too small; avsc tells by how many bytes.
  const exact = Buffer.allocUnsafe(slab.length - end)
  type.encode(value, exact, headerBytes)
  writeHeader(exact, id)
  return exact
}

/** Throws an Error that says why the bytes are not in the wire format. */
export function schemaIdOf(value: Buffer): number {
  if (value.length < headerBytes) {
    throw new Error(`The value has ${value.length} bytes: too short for the wire format`)
  }
  if (value[0] !== 0)
    throw new Error(`The value begins with byte ${value[0]}, not with 0: not the wire format`)
  return value.readInt32BE(1)
}

/** Throws an Error for bodies that are damaged, cut short or followed by further bytes. */
export function readValue(type: avro.Type, resolver: Resolver | undefined, value: Buffer): unknown {
  const { value: decoded, offset } = type.decode(value, headerBytes, resolver)
  if (offset < 0) throw new Error('The value cannot be decoded: it is cut short')
  if (offset !== value.length) {
    throw new Error(`The value cannot be decoded: ${value.length - offset} bytes follow its end`)
  }
  return decoded
}

function writeHeader(buffer: Buffer, id: number): void {
  buffer[0] = 0
  buffer.writeInt32BE(id, 1)
}

/** Parts of avsc's types and of its reading position that its declarations leave out. */
interface Inner {
  itemsType: Inner
  valuesType: Inner
  _read(tap: Tap): unknown
}
interface Tap {
  buf: Buffer
  pos: number
  readLong(): number
  skipLong(): void
  readString(): string
  _invalidate(): void
}

// avsc believes every count: a damaged one of 2^40 would hold the process for hours behind the end of the bytes. Its
// types are frozen, so the readers of maps and arrays are replaced where all of them find theirs.
Object.assign(avro.types.MapType.prototype, { _read: readMap })
Object.assign(avro.types.ArrayType.prototype, { _read: readArray })
// It also copies bytes out of every record, into slabs that it clears before.
Object.assign(avro.types.BytesType.prototype, { _read: viewBytes })

function viewBytes(this: Inner, tap: Tap): Buffer | undefined {
  const length = tap.readLong()
  const from = tap.pos
  tap.pos += Math.max(0, length)
  if (length < 0) tap._invalidate()
  // As avsc has it: what runs over the end is told from the position.
  return length < 0 || tap.pos > tap.buf.length ? undefined : tap.buf.subarray(from, tap.pos)
}

function readMap(this: Inner, tap: Tap): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (let left = readCount(tap); left > 0; left = readCount(tap)) {
    for (; left > 0; left--) {
      const key = tap.readString()
      values[key] = this.valuesType._read(tap)
    }
  }
  return values
}

function readArray(this: Inner, tap: Tap): unknown[] {
  const items: unknown[] = []
  for (let left = readCount(tap); left > 0; left = readCount(tap)) {
    for (; left > 0; left--) items.push(this.itemsType._read(tap))
  }
  return items
}

/** Entries of the next block; a negative count is followed by the block's size in bytes. */
function readCount(tap: Tap): number {
  let count = tap.readLong()
  if (count < 0) {
    count = -count
    tap.skipLong()
  }
  if (count > tap.buf.length - tap.pos) {
    throw new Error('The value cannot be decoded: it announces more entries than it has bytes')
  }
  return count
}
