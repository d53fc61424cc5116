/** Reads a file of JSON lines as checked records, and reports each faulty line by its number. */

import { isUtf8 } from 'node:buffer'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { JsonlHandlers, SearchRecord } from './contract.ts'
import { InexactNumber, parseExact } from './exact-json.ts'
import { SearchFault } from './fault.ts'
import { depthMax, describeSystemFault, recordOf } from './record.ts'

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
  /** The bytes after the last line break are a line, too. */
  end(): void
}

const lineFeed = 10

/** Puts lines together that lie over several chunks. */
function createLines(handlers: JsonlHandlers): Lines {
  let number = 0
  /** The bytes so far of a line that has not ended yet; a line that is too long is only counted. */
  let line: Buffer | null = null
  let lineBytes = 0

  function keep(part: Buffer): void {
    if (part.length === 0) return
    // The system commits memory only for pages that are written to.
    line ??= Buffer.allocUnsafe(lineBytesMax)
    if (lineBytes + part.length <= lineBytesMax) line.set(part, lineBytes)
    lineBytes += part.length
  }

  /** Reads the whole line. Nothing of a line of many megabytes is held when this returns. */
  function takeLine(last: Buffer): SearchRecord | string | null {
    if (line === null || lineBytes === 0) return readLine(last, number)
    keep(last)
    const whole = line.subarray(0, lineBytes)
    if (lineBytes > chunkBytes) line = null
    return readLine(whole, number)
  }

  function finish(last: Buffer): void {
    number++
    const isTooLong = lineBytes + last.length > lineBytesMax
    const outcome = isTooLong ? `longer than ${lineBytesMax} bytes` : takeLine(last)
    lineBytes = 0
    if (outcome === null) return
    if (typeof outcome === 'string') handlers.fault({ line: number, message: outcome })
    else handlers.record(outcome, number)
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
      if (lineBytes > 0) finish(Buffer.alloc(0))
    },
  }
}

/** A record, the reason why the line is no record, or null for an empty line. */
function readLine(bytes: Buffer, number: number): SearchRecord | string | null {
  if (!isUtf8(bytes)) return 'not valid UTF-8'
  const text = bytes.toString('utf8')
  // A byte order mark at the beginning of the file says nothing here. JSON itself allows the \r of a Windows line end.
  const bare = number === 1 && text.startsWith('\uFEFF') ? text.slice(1) : text
  if (bare.trim() === '') return null
  let value: unknown
  try {
    value = parseExact(bare)
  } catch (error) {
    if (error instanceof InexactNumber) return error.message
    // It is valid, then, and too deep for a parser that looks at every number.
    return error instanceof RangeError ? `nested deeper than ${depthMax} levels` : 'not valid JSON'
  }
  return recordOf(value)
}
