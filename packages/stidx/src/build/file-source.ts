/** Reads a file from front to back through one buffer, stretch by stretch. */

import { closeSync, openSync, readSync } from 'node:fs'

export interface FileSource {
  /** The next `length` bytes; valid until the next call. Null at the end of the file. */
  take(length: number): Buffer | null
  close(): void
}

export function openFileSource(file: string, bufferBytes = 1 << 17): FileSource {
  const fd = openSync(file, 'r')
  let buffer = Buffer.allocUnsafe(bufferBytes)
  let start = 0
  let end = 0
  function fill(length: number): boolean {
    const rest = buffer.subarray(start, end)
    if (length > buffer.length) buffer = Buffer.allocUnsafe(length * 2)
    buffer.set(rest)
    start = 0
    end = rest.length
    while (end < length) {
      const got = readSync(fd, buffer, end, buffer.length - end, null)
      if (got === 0) return false
      end += got
    }
    return true
  }
  return {
    take(length) {
      if (end - start < length && !fill(length)) return null
      start += length
      return buffer.subarray(start - length, start)
    },
    close: () => closeSync(fd),
  }
}
