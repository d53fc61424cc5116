/** CRC-32 (the one of zlib and PNG) of bytes, by a table: for the little that is checked before the kernel is there. */

let made: Uint32Array | undefined

export function crc32(data: Uint8Array | string): number {
  const bytes = typeof data === 'string' ? Buffer.from(data, 'utf8') : data
  const table = crcTable()
  let crc = -1
  for (let i = 0; i < bytes.length; i++) crc = table[(crc ^ bytes[i]!) & 255]! ^ (crc >>> 8)
  return ~crc >>> 0
}

/** For each byte what it makes of the lowest eight bits. */
export function crcTable(): Uint32Array {
  made ??= makeTable()
  return made
}

function makeTable(): Uint32Array {
  const table = new Uint32Array(256)
  // Each power of two from the one above it; the others are sums of these.
  let power = 1
  for (let bit = 128; bit > 0; bit >>= 1) {
    power = power & 1 ? 0xedb88320 ^ (power >>> 1) : power >>> 1
    for (let i = 0; i < 256; i += bit * 2) table[i + bit] = power ^ table[i]!
  }
  return table
}
