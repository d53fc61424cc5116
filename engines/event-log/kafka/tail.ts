/**
 * Reads every partition of a topic without a group, and knows when it has read all that existed a second ago.
 */

import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { PartitionRange, Tail, TailOptions } from '../port.ts'
import { openReader, type ReaderParts } from './reader.ts'

const fetchBytesMax = 1_048_576
/** Ends are asked for this often, so that an answer is always younger than a second while the log answers. */
const pollMs = 350
const freshMs = 1_000
const checkMs = 25
const retryPause = { baseMs: 100, maxMs: 1_000 }

interface Ends {
  askedAt: number
  ends: { partition: number; end: number }[]
}

export function openTail({ topic, from, records }: TailOptions, parts: ReaderParts): Tail {
  const { ranges, log } = parts
  const ready = Promise.withResolvers<void>()
  ready.promise.catch(() => {})
  const stop = new AbortController()
  /** The last position of each partition, also while it is not read. */
  const reached = new Map<number, number>()
  let latest: Ends | undefined
  let closing: Promise<void> | undefined

  const reader = openReader(
    parts,
    { topic, fetchBytesMax },
    {
      records(partition, some) {
        const shown = some.at(-1)?.hidden ? some.slice(0, -1) : some
        if (shown.length > 0) records(partition, shown)
      },
      misplaced(partition, { position, start, end }) {
        // What has expired is gone for everybody; a topic that was emptied or made again is read from its beginning.
        log.warn({ topic, partition, position, start, end }, 'the tail goes on at another position')
        startAt(partition, start)
      },
    },
  )
  function startAt(partition: number, position: number): void {
    reached.set(partition, position)
    reader.seek(partition, position)
  }
  function begin({ partition, start, end }: PartitionRange, at: 'beginning' | 'end'): void {
    reader.add(partition)
    startAt(partition, at === 'end' ? end : start)
  }
  function positions(): Map<number, number> {
    for (const [partition, position] of reader.positions()) reached.set(partition, position)
    return new Map(reached)
  }
  function hasReached({ ends }: Ends): boolean {
    const now = reader.positions()
    return ends.every(({ partition, end }) => (now.get(partition) ?? -1) >= end)
  }
  /** Begins to read; resolves with the ends at that time. */
  async function open(): Promise<Ends> {
    const askedAt = performance.now()
    const found = await ranges.ranges(topic)
    for (const range of found) begin(range, from)
    return { askedAt, ends: found }
  }
  async function poll(): Promise<Ends> {
    const askedAt = performance.now()
    const ends = await ranges.ends(topic)
    const fresh = ends.map(({ partition }) => partition).filter((partition) => !reached.has(partition))
    // A partition that was added later is read whole: all of it came after the tail began.
    if (fresh.length > 0) for (const range of await ranges.ranges(topic, fresh)) begin(range, 'beginning')
    return { askedAt, ends }
  }
  async function live(): Promise<void> {
    let first: Ends | undefined
    let isReady = false
    for (let failures = 0; !stop.signal.aborted; ) {
      try {
        latest = first ? await poll() : await open()
        first ??= latest
        failures = 0
      } catch (error) {
        log.debug({ topic, error: describeError(error) }, 'the tail could not ask for the ends')
        await sleep(backoffMs(failures++, retryPause), stop.signal)
        continue
      }
      for (let left = pollMs; left > 0 && !stop.signal.aborted; left -= checkMs) {
        isReady ||= hasReached(first)
        if (isReady) ready.resolve()
        await sleep(isReady ? left : Math.min(checkMs, left), stop.signal)
        if (isReady) break
      }
    }
  }
  void live()

  async function close(): Promise<void> {
    stop.abort()
    latest = undefined
    ready.reject(new Error('the tail was closed before it was ready'))
    positions()
    await reader.close()
  }
  return {
    ready: ready.promise,
    positions,
    current: () =>
      latest !== undefined &&
      performance.now() - latest.askedAt < freshMs &&
      latest.ends.length > 0 &&
      hasReached(latest),
    close() {
      closing ??= close()
      return closing
    },
  }
}
