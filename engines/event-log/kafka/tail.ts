/**
 * Reads every partition of a topic without a group's position, and knows when it has read all that existed a second
 * ago.
 */

import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { GainedPartition, PartitionRange, Tail, TailOptions } from '../port.ts'
import { type ConsumerParts, openConsumer } from './consumer.ts'
import { tailGroupPrefix } from './groups.ts'

export interface TailParts extends Omit<ConsumerParts, 'committed'> {
  log: Logger
  deleteGroup(group: string): Promise<void>
}

const sessionTimeoutMs = 10_000
const fetchBytesMax = 1_048_576
/** Ends are asked for this often, so that an answer is always younger than a second while the log answers. */
const pollMs = 350
const freshMs = 1_000

export function openTail({ topic, from, records }: TailOptions, parts: TailParts): Tail {
  const group = `${tailGroupPrefix}${randomUUID()}`
  const ready = Promise.withResolvers<void>()
  ready.promise.catch(() => {})
  const stop = new AbortController()
  /** The last position of each partition, also while none is owned. */
  const reached = new Map<number, number>()
  let ends: { askedAt: number; ranges: PartitionRange[] } | undefined
  let first: PartitionRange[] | undefined
  let closing: Promise<void> | undefined

  const listener = {
    async assigned(gained: GainedPartition[]): Promise<Map<number, number>> {
      const fresh = reached.size === 0
      for (const { partition, start, end } of gained) {
        // A partition that was added later is read whole: all of it came after the tail began.
        if (!reached.has(partition)) reached.set(partition, fresh && from === 'end' ? end : start)
      }
      return new Map(gained.map(({ partition }) => [partition, reached.get(partition)!]))
    },
    lost() {},
    records(partition: number, arrived: Parameters<TailOptions['records']>[1]) {
      reached.set(partition, arrived.at(-1)!.offset + 1)
      records(partition, arrived)
    },
    misplaced(partition: number, { position, start, end }: { position: number; start: number; end: number }) {
      // Below: what has expired is gone for everybody. Beyond: the topic was emptied or made again.
      const offset = position < start ? start : position > end ? start : position
      parts.log.warn({ topic, partition, position, start, end }, 'the tail goes on at another position')
      reached.set(partition, offset)
      consumer.seek(partition, offset)
    },
  }
  const committed = () => Promise.resolve([])
  const consumer = openConsumer({ group, topic, sessionTimeoutMs, fetchBytesMax }, listener, {
    ...parts,
    committed,
  })

  function positions(): Map<number, number> {
    const all = new Map(reached)
    for (const [partition, position] of consumer.positions()) all.set(partition, position)
    return all
  }
  function hasReached(ranges: PartitionRange[]): boolean {
    const now = consumer.positions()
    return ranges.every(({ partition, end }) => (now.get(partition) ?? -1) >= end)
  }
  async function poll(): Promise<void> {
    while (!stop.signal.aborted) {
      const askedAt = Date.now()
      try {
        ends = { askedAt, ranges: await parts.offsets() }
        first ??= ends.ranges
      } catch (error) {
        parts.log.debug({ topic, error: describeError(error) }, 'the tail could not ask for the ends')
      }
      for (let left = pollMs; left > 0 && !stop.signal.aborted; left -= 25) {
        if (first && hasReached(first)) ready.resolve()
        await sleep(Math.min(25, left), stop.signal)
      }
    }
  }
  void poll()

  async function close(): Promise<void> {
    stop.abort()
    ends = undefined
    ready.reject(new Error('the tail was closed before it was ready'))
    await consumer.close()
    await parts.deleteGroup(group).catch(() => {})
  }
  return {
    ready: ready.promise,
    positions,
    current: () =>
      ends !== undefined &&
      Date.now() - ends.askedAt < freshMs &&
      ends.ranges.length > 0 &&
      hasReached(ends.ranges),
    close() {
      closing ??= close()
      return closing
    },
  }
}
