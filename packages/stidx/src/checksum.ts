/** CRC-32 (the one of zlib and PNG) by a table: Node's own would cost a search the time to load zlib. */

let made: Int32Array | undefined

/** Bytes that are taken in one call: a function that is called often is compiled early, and most processes live shortly. */
const stretch = 64

export function crc32(data: Uint8Array | string): number {
  const bytes = typeof data === 'string' ? Buffer.from(data, 'utf8') : data
  const table = crcTable()
  const { length } = bytes
  let crc = -1
  for (let i = 0; i < length; i += stretch) crc = step(table, bytes, i, Math.min(length, i + stretch), crc)
  return ~crc >>> 0
}

function step(table: Int32Array, bytes: Uint8Array, start: number, end: number, before: number): number {
  let crc = before
  for (let i = start; i < end; i++) crc = table[(crc ^ bytes[i]!) & 255]! ^ (crc >>> 8)
  return crc
}

/** For each byte what it makes of the lowest eight bits. */
export function crcTable(): Int32Array {
  made ??= makeTable()
  return made
}

function makeTable(): Int32Array {
  const table = new Int32Array(256)
  // Each power of two from the one above it; the others are sums of these.
  let power = 1
  for (let bit = 128; bit > 0; bit >>= 1) {
    power = power & 1 ? 0xedb88320 ^ (power >>> 1) : power >>> 1
    for (let i = 0; i < 256; i += bit * 2) table[i + bit] = power ^ table[i]!
  }
  return table
}
