/** CRC-32 (the one of zlib and PNG) of bytes, by a table: for the little that is checked before the kernel is there. */

let table: Uint32Array | undefined

export function crc32(data: Uint8Array | string): number {
  const bytes = typeof data === 'string' ? Buffer.from(data, 'utf8') : data
  table ??= makeTable()
  let crc = -1
  for (let i = 0; i < bytes.length; i++) crc = table[(crc ^ bytes[i]!) & 255]! ^ (crc >>> 8)
  return ~crc >>> 0
}

function makeTable(): Uint32Array {
  const made = new Uint32Array(256)
  // Each power of two from the one above it; the others are sums of these.
  let power = 1
  for (let bit = 128; bit > 0; bit >>= 1) {
    power = power & 1 ? 0xedb88320 ^ (power >>> 1) : power >>> 1
    for (let i = 0; i < 256; i += bit * 2) made[i + bit] = power ^ made[i]!
  }
  return made
}
