/** CRC-32 of the many bytes of a build: by Node where it has one (from 20.15 and 22.2 on), which is faster. */

import * as zlib from 'node:zlib'
import { crc32 as crc32ByTable } from '../checksum.ts'

export const crc32 = (zlib as { crc32?: typeof crc32ByTable }).crc32 ?? crc32ByTable
