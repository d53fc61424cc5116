/** Writes a new file from front to back in large pieces. */

import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs'

const pieceBytes = 1 << 18

export interface FileSink {
  /** Bytes written so far. */
  position(): number
  write(bytes: Uint8Array): void
  /** Writes out the buffered bytes. */
  flush(): void
  /** Overwrites earlier bytes; the order of later ones is not touched. */
  patch(bytes: Uint8Array, at: number): void
  sync(): void
  close(): void
}

/** @throws what the file system throws, `ENOSPC` where the disk is full. */
export function openFileSink(file: string): FileSink {
  const fd = openSync(file, 'wx', 0o644)
  const waiting = Buffer.allocUnsafe(pieceBytes)
  let filled = 0
  let position = 0
  function flush(): void {
    writeWhole(fd, waiting.subarray(0, filled))
    filled = 0
  }
  return {
    position: () => position,
    write(bytes) {
      position += bytes.length
      if (filled + bytes.length > pieceBytes) flush()
      if (bytes.length > pieceBytes) {
        writeWhole(fd, bytes)
      } else {
        waiting.set(bytes, filled)
        filled += bytes.length
      }
    },
    flush,
    patch(bytes, at) {
      flush()
      writeWhole(fd, bytes, at)
    },
    sync: () => fsyncSync(fd),
    close: () => closeSync(fd),
  }
}

/** A write may take a part only. */
function writeWhole(fd: number, bytes: Uint8Array, at: number | null = null): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(fd, bytes, done, bytes.length - done, at === null ? null : at + done)
  }
}
