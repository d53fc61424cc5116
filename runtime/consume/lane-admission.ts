/** Takes arrived records into their lanes, in the order of offsets, as long as the window has room and work is wanted. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { Message } from '../publish/messages.ts'
import { keyOf } from './lanes.ts'
import { settledBeforeRecordsMax } from './limits.ts'
import type { Decode, RunnerHost } from './partition-host.ts'
import type { LaneOptions } from './types.ts'
import type { Window } from './window.ts'

interface LaneAdmissionParts<S extends SchemaName> {
  host: Pick<RunnerHost, 'position' | 'buffer' | 'resumeState' | 'committer' | 'ending'>
  options: LaneOptions<S>
  decode: Decode<S>
  window: Window
  /** A record enters its lane. */
  join(lane: string, record: StoredRecord): void
  /** Records that had to wait for their decoding are in: others may follow. */
  onReady(): void
}

export class LaneAdmission<S extends SchemaName> {
  readonly #parts: LaneAdmissionParts<S>
  /** Records that wait for their decoding: nothing may overtake them. */
  #decoding = 0
  #lastDecoded: Promise<void> = Promise.resolve()
  /** The newest record's key is its lane: to admit more than memory holds would find no other lane. */
  oneLane = false

  constructor(parts: LaneAdmissionParts<S>) {
    this.#parts = parts
  }

  /** Admits what has arrived. Records that are settled already are passed over. */
  admit(wanted: () => boolean): void {
    const { host, window } = this.#parts
    while (this.#decoding === 0 && wanted()) {
      const record = host.buffer.peek()
      if (!record || !window.fits(record.offset)) return
      host.buffer.shift()
      const fresh = window.span === 0
      window.admit(record.offset)
      const kind = host.resumeState.classify(record)
      if (kind === 'work') {
        this.#enter(record, fresh)
        continue
      }
      if (kind === 'settled') this.settledBefore(record)
      window.settle(record.offset)
      host.committer.commitSoon()
    }
  }

  /** Shows the handler a record that was settled before this member gained the partition. */
  settledBefore(record: StoredRecord): void {
    const { host, options, decode } = this.#parts
    if (!options.onSettledBefore || record.offset < host.position - settledBeforeRecordsMax) return
    this.#whenDecoded(decode(record), ({ message }) => {
      if (!message || host.ending.aborted) return
      try {
        options.onSettledBefore?.(message)
      } catch {
        // The handler would have met the same fault, and the record was judged by it.
      }
    })
  }

  #enter(record: StoredRecord, fresh: boolean): void {
    const { options, decode, join } = this.#parts
    const key = keyOf(record)
    this.oneLane = options.keyIsLane?.(key, fresh) ?? false
    if (!options.lane || this.oneLane) join(key, record)
    else this.#whenDecoded(decode(record), ({ message }) => join(this.#laneOf(message) ?? key, record))
  }

  /** Null for a record without a lane of its own: it cannot be decoded, or `lane` fails on it. */
  #laneOf(message: Message<Schemas[S]> | undefined): string | null {
    try {
      if (message) return this.#parts.options.lane!(message)
    } catch {
      // The handler will meet the same fault and the record be judged by it.
    }
    return null
  }

  /** Runs `next` at once where nothing waits, else behind what waits. */
  #whenDecoded(
    decoded: ReturnType<Decode<S>>,
    next: (decoded: Awaited<ReturnType<Decode<S>>>) => void,
  ): void {
    if (!(decoded instanceof Promise) && this.#decoding === 0) {
      next(decoded)
      return
    }
    this.#decoding++
    this.#lastDecoded = this.#lastDecoded.then(async () => {
      const late = await decoded
      this.#decoding--
      if (this.#parts.host.ending.aborted) return
      next(late)
      if (this.#decoding === 0) this.#parts.onReady()
    })
  }
}
