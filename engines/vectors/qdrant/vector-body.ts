/**
 * JSON bodies that carry vectors, written straight into bytes. `JSON.stringify` writes a float32 with the 17 digits of a
 * double, which takes several times as long to write, to send and to read.
 */

/** Pieces of JSON text, and vectors, which become arrays of numbers. */
export type BodyPart = string | Float32Array

/** As of -0.0000012345678901234567, and the comma behind it. */
const numberBytesMax = 26
/** From here to 1, twelve decimals tell neighbouring float32 values apart, also when the last one is cut off. */
const decimalsFrom = 2 ** -15
const million = 1e6
const [comma, minus, point, zero, open, close] = [0x2c, 0x2d, 0x2e, 0x30, 0x5b, 0x5d] as const
/** The three digits of each number below a thousand. */
const digits = Uint8Array.from({ length: 3_000 }, (_, at) => {
  const place = [100, 10, 1][at % 3] as number
  return zero + (Math.trunc(Math.trunc(at / 3) / place) % 10)
})

/** Every number reads back as the same float32. */
export function encodeBody(parts: readonly BodyPart[]): Buffer {
  const bytes = Buffer.allocUnsafe(parts.reduce((sum, part) => sum + bytesMax(part), 0))
  let at = 0
  for (const part of parts) {
    at = typeof part === 'string' ? at + bytes.write(part, at) : writeVector(part, bytes, at)
  }
  return bytes.subarray(0, at)
}

function bytesMax(part: BodyPart): number {
  return typeof part === 'string' ? Buffer.byteLength(part) : part.length * numberBytesMax + 2
}

function writeVector(vector: Float32Array, bytes: Buffer, begin: number): number {
  let at = begin
  bytes[at++] = open
  for (let n = 0; n < vector.length; n++) {
    if (n > 0) bytes[at++] = comma
    const value = vector[n]!
    const size = value < 0 ? -value : value
    if (size >= 1 || size < decimalsFrom) {
      at += bytes.write(String(value), at)
      continue
    }
    if (value < 0) bytes[at++] = minus
    // A float32 times a million, and the rest of it times a million again, are exact in a double.
    const high = Math.trunc(size * million)
    const low = Math.min(Math.round((size * million - high) * million), million - 1)
    bytes[at++] = zero
    bytes[at++] = point
    at = writeSix(high, bytes, at)
    at = writeSix(low, bytes, at)
  }
  bytes[at++] = close
  return at
}

function writeSix(number: number, bytes: Buffer, at: number): number {
  const thousands = Math.trunc(number / 1_000)
  const [left, right] = [thousands * 3, (number - thousands * 1_000) * 3]
  bytes[at] = digits[left]!
  bytes[at + 1] = digits[left + 1]!
  bytes[at + 2] = digits[left + 2]!
  bytes[at + 3] = digits[right]!
  bytes[at + 4] = digits[right + 1]!
  bytes[at + 5] = digits[right + 2]!
  return at + 6
}
