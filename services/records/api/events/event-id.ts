/** Ids of events: how far a stream has come in every partition of hub.records, so that it resumes without gaps. */

import { validationFailed } from '#runtime/http/validation.ts'

/** Where a stream goes on. */
export interface StreamPosition {
  /** Of the topic: offsets of another epoch mean something else. */
  epoch: number
  /** The next offset of each partition, in the order of their numbers. */
  next: readonly number[]
}

const base = 36
const lengthMax = 8_192

/** Opaque to callers. */
export function eventIdOf({ epoch, next }: StreamPosition): string {
  return [epoch, ...next].map((number) => number.toString(base)).join('.')
}

/** Throws AppError `validation_failed` for what is no id of an event. */
export function readEventId(id: string): StreamPosition {
  const numbers = id.length > lengthMax ? [] : id.split('.').map((text) => Number.parseInt(text, base))
  const [epoch = Number.NaN, ...next] = numbers
  const whole = numbers.every((number) => Number.isSafeInteger(number) && number >= 0)
  if (whole && eventIdOf({ epoch, next }) === id) return { epoch, next }
  throw validationFailed([{ path: 'Last-Event-ID', message: 'must be the id of an event of this stream' }])
}
