/**
 * The lanes of a partition: records in order, of which only the head is at work; how records enter them, and the heads
 * that wait for a time.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { Message } from '../publish/messages.ts'
import { retryingLanesMax, retryWaitMsMax, settledBeforeRecordsMax } from './limits.ts'
import type { Attempts } from './metadata.ts'
import type { Partition } from './partition.ts'
import type { Decode } from './partition-host.ts'
import { Queue } from './record-buffer.ts'
import type { LaneOptions } from './types.ts'
import type { Window } from './window.ts'

export class Lane {
  readonly key: string
  head: StoredRecord
  /** Behind the head. Most lanes hold one record: they have none. */
  #more: Queue<StoredRecord> | null = null
  /** Failed tries of the head. */
  attempts = 0
  /** What the handler keeps with them. */
  retriesUsed = 0

  constructor(key: string, first: StoredRecord) {
    this.key = key
    this.head = first
  }

  push(record: StoredRecord): void {
    this.#more ??= new Queue()
    this.#more.push(record)
  }

  /** Drops the head; false when the lane is empty now. */
  shift(): boolean {
    const next = this.#more?.shift()
    if (!next) return false
    this.head = next
    return true
  }

  replace(make: (record: StoredRecord) => StoredRecord): void {
    this.head = make(this.head)
    this.#more?.replace(make)
  }
}

/** The lane of a record's own key. Latin-1 keeps different bytes different, and is quicker than UTF-8. */
function keyOf(record: StoredRecord): string {
  return record.key === null ? '' : record.key.toString('latin1')
}

/**
 * Lanes whose head waits for a time. At most 256 lanes with failed attempts retry at once, further ones wait for a free
 * place; heads that were only postponed need no place.
 */
export class RetryingLanes {
  readonly #due: (lane: Lane) => void
  /** Records with attempts in the last commit that have not come yet: they hold places, too. */
  readonly #awaited: () => number
  readonly #lanes = new Set<Lane>()
  readonly #stalled = new Queue<{ lane: Lane; waitMs: number }>()
  readonly #timers = new Map<Lane, NodeJS.Timeout>()

  constructor(awaited: () => number, due: (lane: Lane) => void) {
    this.#awaited = awaited
    this.#due = due
  }

  /** True while a head waits for its time. */
  get waiting(): boolean {
    return this.#timers.size > 0
  }

  /** The head of a lane failed: it is due again after this wait, or stalls when too many retry already. */
  failed(lane: Lane, waitMs: number): void {
    const places = retryingLanesMax - this.#lanes.size - this.#awaited()
    // Without any in place nobody would free one: records that are awaited may come only behind those that stall.
    if (!this.#lanes.has(lane) && places <= 0 && this.#lanes.size > 0) {
      this.#stalled.push({ lane, waitMs })
      return
    }
    this.#lanes.add(lane)
    this.postponed(lane, waitMs)
  }

  /** The head of a lane was not tried; it is due after this wait. */
  postponed(lane: Lane, waitMs: number): void {
    const due = () => {
      this.#timers.delete(lane)
      this.#due(lane)
    }
    this.#timers.set(lane, setTimeout(due, Math.min(retryWaitMsMax, waitMs)))
  }

  /** A head with counted tries comes from an earlier owner of the partition. */
  resumed(lane: Lane): void {
    this.#lanes.add(lane)
  }

  /** The head of a lane is settled. */
  settled(lane: Lane): void {
    if (!this.#lanes.delete(lane)) return
    const next = this.#stalled.shift()
    if (next) this.failed(next.lane, next.waitMs)
  }

  /** All that wait for a time are due now, those that have waited longest first. */
  wake(): void {
    const lanes = [...this.#timers]
    this.#timers.clear()
    for (const [, timer] of lanes) clearTimeout(timer)
    for (const [lane] of lanes) this.#due(lane)
  }

  attempts(): Attempts[] {
    const of = ({ head, attempts, retriesUsed }: Lane) => ({
      offset: head.offset,
      count: attempts,
      retriesUsed,
    })
    return [...this.#lanes].map(of)
  }

  clear(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    this.#stalled.clear()
    this.#lanes.clear()
  }
}

interface LaneAdmissionParts<S extends SchemaName> {
  host: Pick<Partition, 'position' | 'buffer' | 'resumeState' | 'committer' | 'ending'>
  options: LaneOptions<S>
  decode: Decode<S>
  window: Window
  /** A record enters its lane. */
  join(lane: string, record: StoredRecord): void
  /** Records that had to wait for their decoding are in: others may follow. */
  onReady(): void
}

/** Takes records into their lanes, in the order of offsets, as long as the window has room and work is wanted. */
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

  /** Admits arrived records. Settled ones are passed over. */
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

  /** Runs `next` at once where nothing is pending, else behind it. */
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
