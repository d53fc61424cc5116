/** Ids of the events of a topic's stream: how far it has come in every partition, so that it resumes without gaps. */

import { createHash } from 'node:crypto'
import { AppError } from '#lib/errors.ts'

/** More than any topic may have. */
const partitionsMax = 1_024
const markBytes = 4

/** Where a stream continues. */
export interface StreamPlace {
  /** Of the topic: offsets of another epoch mean something else. */
  epoch: number
  /** The next offset of each partition, in the order of their numbers. */
  next: readonly number[]
}

/** Opaque to callers: a mark of the topic, then the numbers, in URL-safe characters. */
export function streamIdOf(topic: string, { epoch, next }: StreamPlace): string {
  const bytes = [...markOf(topic)]
  for (const number of [epoch, next.length, ...next]) addNumber(bytes, number)
  return Buffer.from(bytes).toString('base64url')
}

/** Throws AppError `validation_failed` for what is not an id of this topic's streams. */
export function readStreamId(topic: string, id: string): StreamPlace {
  const bytes = Buffer.from(id, 'base64url')
  const numbers = bytes.subarray(0, markBytes).equals(markOf(topic)) ? numbersOf(bytes) : null
  const [epoch, length, ...next] = numbers ?? []
  const whole = epoch !== undefined && epoch > 0 && length === next.length && length <= partitionsMax
  if (whole && streamIdOf(topic, { epoch, next }) === id) return { epoch, next }
  throw new AppError('validation_failed', 'Last-Event-ID is not one of this stream.', {
    errors: [{ path: 'Last-Event-ID', message: 'must be the id of an event of this stream' }],
  })
}

function markOf(topic: string): Buffer {
  return createHash('sha256').update(topic).digest().subarray(0, markBytes)
}

/** Seven bits a byte, the lowest first; the eighth says that more follow. */
function addNumber(bytes: number[], number: number): void {
  let rest = number
  while (rest >= 128) {
    bytes.push((rest % 128) + 128)
    rest = Math.floor(rest / 128)
  }
  bytes.push(rest)
}

/** Null for bytes that end in the midst of a number, or hold one that is too large. */
function numbersOf(bytes: Buffer): number[] | null {
  const numbers: number[] = []
  let number = 0
  let unit = 1
  for (const byte of bytes.subarray(markBytes)) {
    number += (byte % 128) * unit
    if (!Number.isSafeInteger(number)) return null
    if (byte >= 128) {
      unit *= 128
      continue
    }
    numbers.push(number)
    number = 0
    unit = 1
  }
  return unit === 1 ? numbers : null
}
