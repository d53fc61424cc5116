/** The Confluent wire format of Avro values: byte 0, the writer schema's id as int32 big-endian, the body. */

import avro from 'avsc'
import { type CountCheck, countCheckOf } from './block-counts.ts'

/** Reads the values that were written under one schema. */
export interface ValueReader {
  type: avro.Type
  /** Undefined where the writer's schema is the reader's own. */
  resolver: ReturnType<avro.Type['createResolver']> | undefined
  checkCounts: CountCheck | undefined
}

const headerBytes = 5
/** Values up to this size are encoded into one buffer that is used again. */
const slabBytes = 64 * 1024
const slab = Buffer.allocUnsafe(slabBytes)
/** Values from this size on have memory of their own, which can be given back; smaller ones share some with others. */
const ownBytesMin = 4_096

/** The Avro type of a schema text. Every reader and writer of the platform parses schemas with it. */
export function parseAvro(text: string): avro.Type {
  return avro.Type.forSchema(JSON.parse(text) as avro.Schema, { omitRecordMethods: true })
}

/** Throws an Error that names the field which does not fit the schema. */
export function writeValue(type: avro.Type, id: number, value: unknown): Buffer {
  const end = type.encode(value, slab, headerBytes)
  if (end >= 0) {
    writeHeader(slab, id)
    const value = end < ownBytesMin ? Buffer.allocUnsafe(end) : Buffer.allocUnsafeSlow(end)
    slab.copy(value, 0, 0, end)
    return value
  }
  // The slab was too small; the negative end says by how many bytes.
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

/** Throws an Error when values that `writer` wrote cannot be read as `reader`. */
export function createValueReader(reader: avro.Type, writer: avro.Type): ValueReader {
  return {
    type: reader,
    // Equal but for spacing, docs and defaults: the bytes are the same, and are read faster without a resolver.
    resolver: reader.equals(writer) ? undefined : reader.createResolver(writer),
    checkCounts: countCheckOf(writer),
  }
}

/** Throws an Error for bodies that are damaged, cut short or followed by further bytes. */
export function readValue({ type, resolver, checkCounts }: ValueReader, value: Buffer): unknown {
  checkCounts?.(value, headerBytes)
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
