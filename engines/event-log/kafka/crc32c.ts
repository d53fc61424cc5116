/**
 * The checksum of Kafka's record batches, CRC-32C (Castagnoli, RFC 3720), four bytes at a time. Node's zlib has only
 * CRC-32, which uses another polynomial.
 */

const polynomial = 0x82f63b78
/** `tables[n * 256 + byte]`: what a byte adds when `n` more follow. */
const tables = new Int32Array(4 * 256)

for (let byte = 0; byte < 256; byte++) {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1
  tables[byte] = crc
}
for (let at = 256; at < tables.length; at++) {
  const before = tables[at - 256]!
  tables[at] = (before >>> 8) ^ tables[before & 0xff]!
}

/** Of the bytes from `from` up to `to`, as an unsigned number. */
export function crc32c(bytes: Uint8Array, from: number, to: number): number {
  let crc = -1
  let at = from
  for (; at + 4 <= to; at += 4) {
    crc ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    crc =
      tables[768 + (crc & 0xff)]! ^
      tables[512 + ((crc >>> 8) & 0xff)]! ^
      tables[256 + ((crc >>> 16) & 0xff)]! ^
      tables[crc >>> 24]!
  }
  for (; at < to; at++) crc = (crc >>> 8) ^ tables[(crc ^ bytes[at]!) & 0xff]!
  return ~crc >>> 0
}
