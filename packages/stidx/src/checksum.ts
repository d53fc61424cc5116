/** CRC-32 (the one of zlib and PNG) by tables: Node's own would cost most searches more, the time to load zlib. */

let made: Int32Array | undefined
let madeWide: Int32Array | undefined

/** Bytes that are taken in one call: a function that is called often is compiled early, and most processes live shortly. */
const stretch = 64

/** Words of four bytes are read in the order of the machine; the tables are for this one, which all but a few have. */
const readsLowFirst = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1

export function crc32(data: Uint8Array | string): number {
  const bytes = typeof data === 'string' ? Buffer.from(data, 'utf8') : data
  const { length } = bytes
  if (length >= nativeFrom) native ??= nativeOr(byTables)
  return native && length >= stretch ? native(bytes) : byTables(bytes)
}

type Checksum = (bytes: Uint8Array) => number

/** With so much to read zlib is loaded, which takes about as long as this by tables. */
const nativeFrom = 1 << 20
let native: Checksum | undefined

/** Node's own from 20.16 and 22.3 on. */
function nativeOr(other: Checksum): Checksum {
  return process.getBuiltinModule?.('node:zlib').crc32 ?? other
}

function byTables(bytes: Uint8Array): number {
  const { length } = bytes
  const table = crcTable()
  // Bytes that do not fill a word, at the start and at the end, go one by one.
  const start = Math.min(length, -bytes.byteOffset & 3)
  const words = readsLowFirst ? (length - start) >> 2 : 0
  let crc = step(table, bytes, 0, start, -1)
  if (words > 0) crc = stepWords(new Int32Array(bytes.buffer, bytes.byteOffset + start, words), crc)
  for (let i = start + words * 4; i < length; i += stretch) {
    crc = step(table, bytes, i, Math.min(length, i + stretch), crc)
  }
  return ~crc >>> 0
}

function step(table: Int32Array, bytes: Uint8Array, start: number, end: number, before: number): number {
  let crc = before
  for (let i = start; i < end; i++) crc = table[(crc ^ bytes[i]!) & 255]! ^ (crc >>> 8)
  return crc
}

function stepWords(words: Int32Array, before: number): number {
  madeWide ??= makeWideTable()
  const { length } = words
  let crc = before
  for (let i = 0; i < length; i += stretch >> 2) {
    crc = fourBytes(madeWide, words, i, Math.min(length, i + (stretch >> 2)), crc)
  }
  return crc
}

/** Takes four bytes at once: half the work for an engine that has compiled nothing yet. */
function fourBytes(wide: Int32Array, words: Int32Array, start: number, end: number, before: number): number {
  let crc = before
  for (let i = start; i < end; i++) {
    crc ^= words[i]!
    crc =
      wide[768 | (crc & 255)]! ^
      wide[512 | ((crc >>> 8) & 255)]! ^
      wide[256 | ((crc >>> 16) & 255)]! ^
      wide[crc >>> 24]!
  }
  return crc
}

/** The CRC table: for each value of the lowest eight bits, its contribution. */
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

/** The table four times: what a byte makes of the bits when none, one, two or three bytes follow it. */
function makeWideTable(): Int32Array {
  const table = crcTable()
  const wide = new Int32Array(1024)
  wide.set(table)
  for (let i = 256; i < 1024; i++) {
    const before = wide[i - 256]!
    wide[i] = table[before & 255]! ^ (before >>> 8)
  }
  return wide
}
