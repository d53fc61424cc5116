/**
 * Reads partitions in order for members and tails: from the file at first, and from memory once they have caught up.
 */

import type { Misplaced, StoredRecord } from '../port.ts'
import type { Fetched } from './reader-thread.ts'
import { createCursor, lastOffset, takeRecords } from './record-block.ts'
import type { PartitionListener, PartitionState } from './topics.ts'

export const fetchBytesDefault = 1_048_576
/** After a failed read. */
const retryAfterMs = 200

export interface ReaderOptions {
  state: PartitionState
  fetch(id: number, position: number, bytesMax: number): Promise<Fetched>
  bytesMax: number
  records(records: StoredRecord[]): void
  /** The position is outside of the log: nothing is read until `seek`. */
  misplaced(problem: Misplaced): void
  /** A listener that threw, or a read that failed (it is repeated). */
  fault(error: unknown): void
}

interface Block {
  /** Offset behind its last record. */
  next: number
  take(): StoredRecord[]
}

export type PartitionReader = ReturnType<typeof createPartitionReader>

export function createPartitionReader(options: ReaderOptions) {
  const { state, bytesMax } = options
  /** Next to be delivered. */
  let position: number | null = null
  let started = false
  let paused = false
  let stopped = false
  /** Read and not yet delivered: one block at most, and one under way behind it. */
  let waiting: Block | null = null
  let reading = false
  let delivering = false
  /** Rises with each seek: reads for an older position are dropped. */
  let epoch = 0

  /** Delivers pending records and reads on; called whenever something may have changed. */
  function pump(): void {
    if (delivering) return
    while (!stopped && !paused && position !== null) {
      const block = waiting
      if (!block) {
        readFrom(position)
        return
      }
      waiting = null
      // The thread reads the next block while this one is worked on.
      readFrom(block.next)
      deliver(block.take(), block.next)
    }
  }
  function deliver(records: StoredRecord[], next: number): void {
    position = next
    if (records.length === 0) return
    delivering = true
    reportThrown(options.fault, () => options.records(records))
    delivering = false
  }
  function readFrom(from: number): void {
    if (reading || state.gone) return
    if (from < state.start) outside(from)
    else if (from < state.end) read(from, state.end)
  }
  function read(from: number, end: number): void {
    reading = true
    const mine = epoch
    options.fetch(state.id, from, bytesMax).then(
      (fetched) => {
        reading = false
        if (mine === epoch && !fetched.gone) accept(fetched, from, end)
        pump()
      },
      (error) => {
        reading = false
        if (stopped) return
        options.fault(error)
        setTimeout(pump, retryAfterMs)
      },
    )
  }
  function accept(fetched: Fetched & { gone: false }, from: number, end: number): void {
    state.start = Math.max(state.start, fetched.start)
    if (from < fetched.start) outside(from)
    else waiting = blockOf(fetched, end, state.partition)
  }
  /** Only the next block to deliver stops the reader: a block before it comes first. */
  function outside(from: number): void {
    if (position !== from || stopped) return
    halt()
    const problem = { position: from, start: state.start, end: state.end }
    reportThrown(options.fault, () => options.misplaced(problem))
  }
  function halt(): void {
    epoch++
    position = null
    waiting = null
  }
  const partitionListener: PartitionListener = {
    appended(first, count, take) {
      const idle = !stopped && !paused && !reading && !delivering && !waiting
      if (idle && position === first && take) deliver(take(), first + count)
      pump()
    },
    changed: pump,
  }
  state.readers.add(partitionListener)

  return {
    /** Next offset to be delivered; null while it reads nothing. */
    position: (): number | null => position,
    /** True once it was given a position. */
    started: (): boolean => started,
    seek(offset: number): void {
      if (stopped) return
      halt()
      started = true
      position = offset
      if (offset < state.start || offset > state.end) outside(offset)
      else pump()
    },
    pause(): void {
      paused = true
    },
    resume(): void {
      paused = false
      pump()
    },
    stop(): void {
      stopped = true
      halt()
      state.readers.delete(partitionListener)
    },
  }
}

/** Where no record came although some were there, they were removed meanwhile: the end is the next position. */
function blockOf({ records, block }: Fetched & { gone: false }, end: number, partition: number): Block {
  const next = records === 0 ? end : lastOffset(block, records) + 1
  return { next, take: () => takeRecords(createCursor(block, records), records, partition) }
}

/** A listener that throws must not stop the reader. */
function reportThrown(fault: (error: unknown) => void, call: () => void): void {
  try {
    call()
  } catch (error) {
    fault(error)
  }
}
