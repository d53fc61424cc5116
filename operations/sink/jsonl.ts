/**
 * A sink into files: a record is a line of JSON that holds the position behind it, so that data and position cannot
 * disagree. What a killed process left of a last line is cut off at the next start.
 */

import { closeSync, ftruncateSync, openSync, readdirSync, readSync, rmSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '#lib/errors.ts'
import { makeFolder } from '#lib/files.ts'
import type { Closeable } from '#lib/resource.ts'
import { takeFileLock } from '#lib/sqlite.ts'
import type { ShownRecord } from '#runtime/follow/show-record.ts'

interface JsonlOptions {
  /** Absolute. */
  folder: string
  topic: string
  /** A file that is larger than this is followed by another one. */
  rotateBytes: number
}

const digits = 6
const chunkBytes = 64 * 1024
const newline = 0x0a

/** Throws AppError `conflict` when another sink writes there, or a file of that name is none of a sink. */
export async function openJsonlTarget({ folder, topic, rotateBytes }: JsonlOptions): Promise<SinkTarget> {
  makeFolder(folder)
  const lock = takeFileLock(join(folder, `${topic}.lock`))
  if (lock === null) {
    throw new AppError(
      'conflict',
      `Another sink writes ${topic} into ${folder}: stop it, or name another folder.`,
    )
  }
  const fileOf = (number: number) => join(folder, `${topic}-${String(number).padStart(digits, '0')}.jsonl`)
  let file: FileHandle | undefined
  try {
    const newest = findNewest(folder, topic, fileOf)
    let { number, position } = newest
    file = await open(fileOf(number), 'a', 0o600)
    let size = (await file.stat()).size
    return {
      position: async () => position,
      async write(records) {
        if (size >= rotateBytes) {
          await finish(file)
          number += 1
          file = await open(fileOf(number), 'a', 0o600)
          size = 0
        }
        const lines = records.map(({ position: behind, ...record }) =>
          // First in the line: it is what the next start looks for.
          JSON.stringify({ position: behind, ...record }),
        )
        const bytes = Buffer.from(`${lines.join('\n')}\n`)
        await file?.appendFile(bytes)
        size += bytes.length
        position = records.at(-1)?.position ?? position
      },
      async close() {
        await finish(file)
        lock.release()
      },
    }
  } catch (error) {
    await file?.close()
    lock.release()
    throw error
  }
}

async function finish(file: FileHandle | undefined): Promise<void> {
  await file?.sync()
  await file?.close()
}

/** The newest file that holds a whole line; files behind it were begun and hold none. */
function findNewest(
  folder: string,
  topic: string,
  fileOf: (number: number) => string,
): { number: number; position: string | null } {
  const numbers = readdirSync(folder)
    .filter((name) => name.startsWith(`${topic}-`) && /^\d{6,}\.jsonl$/.test(name.slice(topic.length + 1)))
    .map((name) => Number.parseInt(name.slice(topic.length + 1), 10))
    .sort((a, b) => b - a)
  for (const number of numbers) {
    const line = repair(fileOf(number))
    if (line !== null) return { number, position: positionIn(line, fileOf(number)) }
    rmSync(fileOf(number))
  }
  return { number: numbers.at(-1) ?? 1, position: null }
}

/** Cuts off what has no end of line, and returns the last whole line; null where there is none. */
function repair(file: string): string | null {
  const { size } = statSync(file)
  const descriptor = openSync(file, 'r+')
  try {
    const end = lastNewline(descriptor, size)
    if (end + 1 < size) ftruncateSync(descriptor, end + 1)
    if (end < 0) return null
    const start = lastNewline(descriptor, end) + 1
    const line = Buffer.alloc(end - start)
    readSync(descriptor, line, 0, line.length, start)
    return line.toString('utf8')
  } finally {
    closeSync(descriptor)
  }
}

/** Where the last end of a line lies before `before`; -1: nowhere. */
function lastNewline(descriptor: number, before: number): number {
  const chunk = Buffer.alloc(chunkBytes)
  for (let to = before; to > 0; ) {
    const from = Math.max(0, to - chunkBytes)
    const length = readSync(descriptor, chunk, 0, to - from, from)
    const found = chunk.subarray(0, length).lastIndexOf(newline)
    if (found >= 0) return from + found
    to = from
  }
  return -1
}

function positionIn(line: string, file: string): string {
  try {
    const { position } = JSON.parse(line) as { position?: unknown }
    if (typeof position === 'string') return position
  } catch {
    // Said below.
  }
  throw new AppError('conflict', `${file} is no file of a sink: move it away, or name another folder.`)
}

/** A record with the position behind it. */
export interface PositionedRecord extends ShownRecord {
  position: string
}

export interface SinkTarget extends Closeable {
  /** Behind the last record that it holds; null while it holds none. */
  position(): Promise<string | null>
  /**
   * Keeps the records and the position behind the last of them together: both, or neither. Throws AppError `fenced` when
   * another sink has taken its place.
   */
  write(records: readonly PositionedRecord[]): Promise<void>
  /** Called when all that was in the topic at the start is written. `epoch`: of the topic. */
  caughtUp?(epoch: number): Promise<void>
}
