/** Reads a file of JSON lines as checked records, and names each line that is none by its number. */

import { isUtf8 } from 'node:buffer'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { JsonlFault, JsonlHandlers, SearchRecord } from './contract.ts'
import { SearchFault } from './fault.ts'
import { describeSystemFault, recordOf } from './record.ts'

/** A longer line is a fault, and is skipped without being held. */
export const lineBytesMax = 16 * 2 ** 20
const chunkBytes = 2 ** 20
/** How long a standard input that has nothing yet is left alone. */
const retryMs = 5

/** Synchronous; holds one line at a time. `-` is standard input. Throws SearchFault where the file cannot be read. */
export function readJsonl(file: string, handlers: JsonlHandlers): void {
  const descriptor = file === '-' ? 0 : open(file)
  try {
    const totalBytes = file === '-' ? 0 : fstatSync(descriptor).size
    const lines = createLines(handlers)
    const chunk = Buffer.allocUnsafe(chunkBytes)
    let readBytes = 0
    for (;;) {
      const length = read(descriptor, chunk, file)
      if (length === 0) break
      readBytes += length
      lines.take(chunk.subarray(0, length))
      handlers.progress?.(readBytes, totalBytes)
    }
    lines.end()
  } finally {
    if (descriptor !== 0) closeSync(descriptor)
  }
}

function open(file: string): number {
  try {
    return openSync(file, 'r')
  } catch (error) {
    throw cannotRead(file, error)
  }
}

function read(descriptor: number, chunk: Buffer, file: string): number {
  for (;;) {
    try {
      return readSync(descriptor, chunk, 0, chunk.length, null)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EOF') return 0
      if (code !== 'EAGAIN') throw cannotRead(file, error)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs)
    }
  }
}

function cannotRead(file: string, error: unknown): SearchFault {
  return new SearchFault('bad_input', `cannot read ${file}: ${describeSystemFault(error)}`)
}

interface Lines {
  take(chunk: Buffer): void
  /** What comes after the last line break is a line, too. */
  end(): void
}

const lineFeed = 10

/** Puts lines together that lie over several chunks. */
function createLines(handlers: JsonlHandlers): Lines {
  let number = 0
  let parts: Buffer[] = []
  let partsBytes = 0

  /** What is too long to be a line is counted only. */
  function keep(part: Buffer): void {
    partsBytes += part.length
    if (partsBytes > lineBytesMax) parts = []
    else if (part.length > 0) parts.push(Buffer.from(part))
  }

  function finish(last: Buffer): void {
    number++
    const bytes = partsBytes + last.length
    if (bytes > lineBytesMax) {
      handlers.fault({ line: number, message: `longer than ${lineBytesMax} bytes` })
    } else {
      takeLine(parts.length === 0 ? last : Buffer.concat([...parts, last]), number, handlers)
    }
    parts = []
    partsBytes = 0
  }

  return {
    take(chunk) {
      let from = 0
      for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, from)) {
        finish(chunk.subarray(from, end))
        from = end + 1
      }
      keep(chunk.subarray(from))
    },
    end() {
      if (partsBytes > 0) finish(Buffer.alloc(0))
    },
  }
}

function takeLine(bytes: Buffer, number: number, handlers: JsonlHandlers): void {
  const read = readLine(bytes, number)
  if (read === null) return
  if (typeof read === 'string') handlers.fault({ line: number, message: read } satisfies JsonlFault)
  else handlers.record(read, number)
}

/** A record, the reason why there is none, or null for an empty line. */
function readLine(bytes: Buffer, number: number): SearchRecord | string | null {
  if (!isUtf8(bytes)) return 'not valid UTF-8'
  const text = bytes.toString('utf8')
  // A byte order mark at the beginning of the file says nothing here. JSON itself allows the \r of a Windows line end.
  const bare = number === 1 && text.startsWith('\uFEFF') ? text.slice(1) : text
  if (bare.trim() === '') return null
  let value: unknown
  try {
    value = JSON.parse(bare)
  } catch {
    return 'not valid JSON'
  }
  return recordOf(value)
}
