/** CRC-32 (the one of zlib and PNG) of bytes: by Node where it has one, else by a table. */

import * as zlib from 'node:zlib'

type Crc = (bytes: Uint8Array | string, start?: number) => number

/** Node has it from 20.15 and 22.2 on. */
export const crc32: Crc = (zlib as { crc32?: Crc }).crc32 ?? crc32ByTable

let table: Uint32Array | undefined

export function crc32ByTable(bytes: Uint8Array | string, start = 0): number {
  const data = typeof bytes === 'string' ? Buffer.from(bytes) : bytes
  table ??= Uint32Array.from({ length: 256 }, (_, n) => {
    let c = n
    for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1
    return c
  })
  let crc = ~start
  for (let i = 0; i < data.length; i++) crc = table[(crc ^ data[i]!) & 255]! ^ (crc >>> 8)
  return ~crc >>> 0
}
