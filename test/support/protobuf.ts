/** Reads the fields of a protobuf message, without its description. */

export interface ProtobufField {
  number: number
  /** A number that is not fixed in length, else the bytes. */
  value: bigint | Buffer
}

export function fieldsOf(message: Buffer): ProtobufField[] {
  const fields: ProtobufField[] = []
  let at = 0
  const varint = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++]!
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const take = (length: number) => {
    at += length
    return message.subarray(at - length, at)
  }
  while (at < message.length) {
    const tag = Number(varint())
    const wire = tag & 7
    if (wire > 2 && wire !== 5) throw new Error(`wire type ${wire} at byte ${at}`)
    const value = wire === 0 ? varint() : take(wire === 1 ? 8 : wire === 5 ? 4 : Number(varint()))
    fields.push({ number: tag >> 3, value })
  }
  return fields
}

/** Empty when the field is not there. */
export function textOf(fields: readonly ProtobufField[], number: number): string {
  const value = fields.find((field) => field.number === number)?.value
  return Buffer.isBuffer(value) ? value.toString('utf8') : ''
}
