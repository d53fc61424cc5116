/**
 * A point as bytes of protobuf. Encoding a message that describes it would take three times as long, most of it for the hundred
 * values of a payload, and longer than writing JSON. Field numbers are those of Qdrant's `points.proto` and `json_with_int.proto`.
 */

import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import type { QdrantPoint } from './writer.ts'

const { LengthDelimited, Varint, Bit64 } = WireType
const pointsField = 1
const pointFields = { id: 1, payload: 3, vectors: 4 } as const
const uuidField = 2
/** From `Vectors` to `Vector` to `DenseVector`. */
const vectorFields = [1, 101] as const
const dataField = 1
const entryFields = { key: 1, value: 2 } as const
const valueFields = { double: 2, integer: 3, text: 4, object: 6, list: 7 } as const
const membersField = 1
const int64End = 2 ** 63

/** A point as a field of `PointStructList` that the client passes on as it is. */
export function encodePoint({ id, payload, vector }: QdrantPoint) {
  const writer = new BinaryWriter().fork()
  begin(writer, pointFields.id).tag(uuidField, LengthDelimited).string(id).join()
  writeMembers(writer, pointFields.payload, payload)
  begin(writer, pointFields.vectors)
  for (const field of vectorFields) begin(writer, field)
  const bytes = new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)
  writer.tag(dataField, LengthDelimited).bytes(bytes)
  for (const _ of vectorFields) writer.join()
  return { no: pointsField, wireType: LengthDelimited, data: writer.join().join().finish() }
}

function begin(writer: BinaryWriter, field: number): BinaryWriter {
  return writer.tag(field, LengthDelimited).fork()
}

/** Each member is an entry of the map with this field number. */
function writeMembers(writer: BinaryWriter, field: number, object: object): void {
  for (const [key, value] of Object.entries(object)) {
    begin(writer, field).tag(entryFields.key, LengthDelimited).string(key)
    begin(writer, entryFields.value)
    writeValue(writer, value)
    writer.join().join()
  }
}

/** Text, numbers, lists and objects: payloads of points in Qdrant hold nothing else. */
function writeValue(writer: BinaryWriter, value: unknown): void {
  if (typeof value === 'string') writer.tag(valueFields.text, LengthDelimited).string(value)
  else if (typeof value === 'number') writeNumber(writer, value)
  else if (Array.isArray(value)) {
    begin(writer, valueFields.list)
    for (const element of value) {
      begin(writer, membersField)
      writeValue(writer, element)
      writer.join()
    }
    writer.join()
  } else {
    writeMembers(begin(writer, valueFields.object), membersField, value as object)
    writer.join()
  }
}

/** An integer where Qdrant takes the number for one in JSON. */
function writeNumber(writer: BinaryWriter, value: number): void {
  if (Number.isInteger(value) && value >= -int64End && value < int64End)
    writer.tag(valueFields.integer, Varint).int64(BigInt(value))
  else writer.tag(valueFields.double, Bit64).double(value)
}
