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
    return Buffer.from(slab.subarray(0, end))
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
