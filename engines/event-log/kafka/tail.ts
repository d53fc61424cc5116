/**
 * Reads the partitions of a topic without a group, and knows when it has read all that existed a second ago.
 */

import { backoffMs, createWakeup, sleep, timeBehind, timerErrorMs, withTimeout } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { PartitionRange, Tail, TailOptions } from '../port.ts'
import { createTaking, startOf } from '../taking.ts'
import { openReader, type ReaderParts } from './reader.ts'

const fetchBytesDefault = 1_048_576
/** While somebody wants to know whether the tail is current, so that an answer is always younger than a second. */
const pollMs = 350
const freshMs = 1_000
/** Nobody has asked for this long: then only partitions that were added are looked for, at the leaders that are known. */
const wantedMs = 10_000
const addedEveryMs = 5_000
const retryPause = { baseMs: 100, maxMs: 1_000 }

interface Ends {
  askedAt: number
  ends: { partition: number; end: number }[]
}

export function openTail(options: TailOptions, parts: ReaderParts): Tail {
  const { topic, fetchBytesMax = fetchBytesDefault } = options
  const { cluster, ranges, log } = parts
  const isWanted = ({ partition }: { partition: number }) => options.partitions?.includes(partition) ?? true
  const ready = Promise.withResolvers<void>()
  ready.promise.catch(() => {})
  const stop = new AbortController()
  /** The last position of each partition, also while it is not read. */
  const reached = new Map<number, number>()
  /** As asked for first, and last. */
  let first: Ends | undefined
  let latest: Ends | undefined
  let failures = 0
  const interest = createInterest()
  /** Resolves when the ends were asked for once more, or records came. */
  let step = Promise.withResolvers<void>()
  let closing: Promise<void> | undefined

  const reader = openReader(
    parts,
    { topic, fetchBytesMax },
    {
      records(partition, records) {
        taking.give(partition, records)
        stepped()
      },
      misplaced(partition, problem) {
        // Expired records are gone for everybody; a topic that was emptied or made again is read from its beginning.
        options.misplaced?.(partition, problem)
        startAt(partition, problem.start)
        stepped()
      },
    },
  )
  const taking = createTaking(reader, options.records, stepped)
  function startAt(partition: number, position: number): void {
    reached.set(partition, position)
    reader.seek(partition, position)
  }
  function begin(range: PartitionRange, at: TailOptions['from']): void {
    reader.add(range.partition)
    startAt(range.partition, startOf(range, at))
  }
  function positions(): Map<number, number> {
    for (const [partition, position] of reader.positions()) reached.set(partition, position)
    return taking.taken(reached)
  }
  const hasReached = ({ ends }: Ends) => areTaken(ends, taking.taken(reader.positions()))
  function stepped(): void {
    if (first && hasReached(first)) ready.resolve()
    step.resolve()
    step = Promise.withResolvers()
  }
  /** The first time it begins to read; later it begins to read added partitions. */
  async function ask(): Promise<Ends> {
    const askedAt = performance.now()
    if (!first) {
      const found = await ranges.ranges(topic, options.partitions)
      for (const range of found) begin(range, options.from)
      return { askedAt, ends: found }
    }
    const ends = (await ranges.ends(topic)).filter(isWanted)
    await readAdded(ends)
    return { askedAt, ends }
  }
  /** A partition that was added later is read whole: all of it came after the tail began. */
  async function readAdded(present: { partition: number }[]): Promise<void> {
    const wanted = present.filter(isWanted).map(({ partition }) => partition)
    const added = wanted.filter((partition) => !reached.has(partition))
    if (added.length > 0) for (const range of await ranges.ranges(topic, added)) begin(range, 'beginning')
  }
  async function live(): Promise<void> {
    while (!stop.signal.aborted) {
      try {
        if (!first || interest.lasts()) latest = await ask()
        else await readAdded((await cluster.topics.get(topic)) ?? [])
        first ??= latest
        failures = 0
      } catch (error) {
        log.debug({ topic, error: describeError(error) }, 'the tail could not ask for the ends')
        failures++
      }
      stepped()
      if (failures > 0) await sleep(backoffMs(failures - 1, retryPause), stop.signal)
      else await interest.sleep(stop.signal)
    }
  }
  void live()

  function isCurrent(): boolean {
    if (stop.signal.aborted || !latest || performance.now() - latest.askedAt >= freshMs) return false
    return latest.ends.length > 0 && hasReached(latest)
  }
  async function close(): Promise<void> {
    stop.abort()
    ready.reject(new Error('the tail was closed before it was ready'))
    positions()
    step.resolve()
    await reader.close()
  }
  return {
    ready: ready.promise,
    positions,
    current() {
      interest.renew()
      return isCurrent()
    },
    async caughtUp() {
      interest.renew()
      // A log that is away holds nobody up.
      const over = () => isCurrent() || failures > 0 || stop.signal.aborted
      await stepUntil(over, () => step.promise, freshMs)
      return isCurrent()
    },
    close() {
      closing ??= close()
      return closing
    },
  }
}

/** A timer that came a little too early does not ask twice for one time. */
function untilPoll(): number {
  const now = performance.now()
  return Math.ceil(timeBehind(now + timerErrorMs, pollMs) - now)
}

/** Whether somebody wants to know if the tail is current: then the ends are asked for often. */
function createInterest() {
  const begun = createWakeup()
  let until = 0
  const lasts = () => performance.now() < until
  return {
    lasts,
    renew(): void {
      if (!lasts()) begun.wake()
      until = performance.now() + wantedMs
    },
    /** Until the next look, which all tails take at the same times: so that their questions share requests. */
    sleep: (signal: AbortSignal) => begun.sleep(lasts() ? untilPoll() : addedEveryMs, signal),
  }
}

/** Records of a partition that is not being read, as while its position is looked up, are not taken. */
function areTaken(ends: Ends['ends'], now: ReadonlyMap<number, number>): boolean {
  return ends.every(({ partition, end }) => (now.get(partition) ?? -1) >= end)
}

/** Waits for one step after the other until it is over, for `ms` at most. */
async function stepUntil(over: () => boolean, step: () => Promise<void>, ms: number): Promise<void> {
  const late = () => new Error('no answer in time')
  for (const until = performance.now() + ms; !over(); ) {
    const leftMs = until - performance.now()
    if (leftMs <= 0) return
    await withTimeout(step(), leftMs, late).catch(() => {})
  }
}
