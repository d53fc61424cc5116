/**
 * Positions in a topic as text: the next offset of each partition, as `0:12,1:40`. They are the ids of streams, what
 * pages go on from, and what sinks keep. Where the topic was copied (`topics grow` of a compacted one) offsets began
 * again, and its epoch comes first: `e2/0:12,1:40`.
 */

import { AppError } from '#lib/errors.ts'

/** Enough for more partitions than a topic may have. */
export const positionLengthMax = 24_000
const form = /^(?:e([2-9]|[1-9]\d{1,8})\/)?(\d{1,4}:\d{1,16}(?:,\d{1,4}:\d{1,16})*)$/

export interface TopicPosition {
  /** Epoch of the topic: offsets of another epoch mean something else. */
  epoch: number
  /** Partition → next offset. */
  next: ReadonlyMap<number, number>
}

export function positionText({ epoch, next }: TopicPosition): string {
  let text = ''
  for (const [partition, offset] of next) text += `${text === '' ? '' : ','}${partition}:${offset}`
  return epoch === 1 ? text : `e${epoch}/${text}`
}

/** `field`: where it was given. Throws AppError `validation_failed` for what is no position. */
export function readPosition(text: string, field: string): TopicPosition {
  const [, epoch = '1', places = ''] = (text.length <= positionLengthMax && form.exec(text)) || []
  const next = new Map<number, number>()
  for (const place of places === '' ? [] : places.split(',')) {
    const [partition, offset] = place.split(':').map(Number) as [number, number]
    if (next.has(partition) || !Number.isSafeInteger(offset)) throw noPosition(field)
    next.set(partition, offset)
  }
  if (next.size === 0) throw noPosition(field)
  return { epoch: Number(epoch), next }
}

function noPosition(field: string): AppError {
  const rule = 'must be a position such as 0:12,1:40: each partition once, with its next offset'
  return new AppError('validation_failed', `What is given to begin at ${rule}.`, {
    errors: [{ path: field, message: rule }],
  })
}

/** What the log does not hold, and where to go on: `earliest` is the oldest that it holds. */
export function positionExpired(message: string, earliest: TopicPosition): AppError {
  return new AppError(
    'position_expired',
    `${message} Go on from \`earliest\`, and expect that records are missing.`,
    { members: { earliest: positionText(earliest) } },
  )
}
