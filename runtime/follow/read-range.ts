/** Reads a range of one partition once, without joining a group that does work. */

import type { Log, LogReader, StoredRecord } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'

interface RecordRange {
  topic: string
  partition: number
  /** First offset to read. */
  from: number
  /** Behind the last offset to read; no more than the partition's end. */
  to: number
  timeoutMs: number
}

/** Calls `visit` with each record in order. Throws AppError `log_unavailable` when it takes longer than `timeoutMs`. */
export async function readRange(
  eventLog: Log,
  { topic, partition, from, to, timeoutMs }: RecordRange,
  visit: (record: StoredRecord) => void,
): Promise<void> {
  if (from >= to) return
  const end = Promise.withResolvers<void>()
  const late = setTimeout(() => {
    end.reject(
      new AppError('log_unavailable', 'Reading the log takes too long; try again.', { retryAfter: 5 }),
    )
  }, timeoutMs)
  let reader: LogReader | undefined
  try {
    reader = await eventLog.read({
      topic,
      from: new Map([[partition, from]]),
      listener: {
        records(_, records) {
          for (const record of records) if (record.offset < to && !record.hidden) visit(record)
          // The newest record is never compacted away, and hidden ones come as well: the end is always seen.
          if (records.at(-1)!.offset >= to - 1) end.resolve()
        },
        misplaced: () => end.reject(new AppError('not_found', 'The position is not in the log any more.')),
      },
    })
    await end.promise
  } finally {
    clearTimeout(late)
    await reader?.close()
  }
}
