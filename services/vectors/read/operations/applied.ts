/** The greatest applied offset of each generation and partition, and the requests that wait for further ones. */

import { AppError } from '#lib/errors.ts'
import type { Position } from '#runtime/publish/messages.ts'
import type { VectorsProgress } from '#schemas/types.ts'

/** Requests that may wait for operations at the same time. */
const waitersMax = 10_000

interface PartitionState {
  through: number
  failures: number
}

interface Waiter {
  /** Positions that are not applied yet. */
  missing: Missing[]
  /** How many of them are left. */
  left: number
  resolve(reached: boolean): void
}

interface Missing extends Position {
  waiter: Waiter
}

/** Holds state only: it is given progress records and answers for the generation that is live. */
export function createApplied() {
  const generations = new Map<number, Map<number, PartitionState>>()
  const listeners: ((partition: number, through: number) => void)[] = []
  const waiters = new Set<Waiter>()
  /** What the waiters miss, by partition. */
  const missing = new Map<number, ByOffset<Missing>>()
  let live: number | undefined
  let stopped = false
  /** Failures that nobody counted here. */
  let unknown = 0

  function stateOf(partition: number): PartitionState | undefined {
    return live === undefined ? undefined : generations.get(live)?.get(partition)
  }
  function through(partition: number): number {
    return stateOf(partition)?.through ?? -1
  }
  function moved(partition: number): void {
    const reached = through(partition)
    for (const listener of listeners) listener(partition, reached)
    for (const { waiter } of missing.get(partition)?.takeThrough(reached) ?? []) {
      waiter.left--
      if (waiter.left === 0) waiter.resolve(true)
    }
  }
  function missingIn(partition: number): ByOffset<Missing> {
    const known = missing.get(partition)
    if (known) return known
    const created = createByOffset<Missing>()
    missing.set(partition, created)
    return created
  }

  return {
    through,
    failures: (partition: number) => (stateOf(partition)?.failures ?? 0) + unknown,
    live: () => live,
    waiting: () => waiters.size,
    onApplied(listener: (partition: number, through: number) => void) {
      listeners.push(listener)
    },
    /** Progress is repeated and may arrive out of order: the greatest counts. */
    take(value: Pick<VectorsProgress, 'generation' | 'partition' | 'applied_through' | 'failures'>): void {
      const partitions = generations.get(value.generation) ?? new Map<number, PartitionState>()
      generations.set(value.generation, partitions)
      const before = partitions.get(value.partition)
      partitions.set(value.partition, {
        through: Math.max(value.applied_through, before?.through ?? -1),
        failures: Math.max(value.failures, before?.failures ?? 0),
      })
      if (value.generation === live) moved(value.partition)
    },
    /** A record of progress could not be read. */
    missed(): void {
      unknown = 1
    },
    /** An operator has set a partition back: what it reports next counts, however small. */
    forget(generation: number, partition: number): void {
      generations.get(generation)?.delete(partition)
    },
    goLive(generation: number): void {
      if (generation === live) return
      live = generation
      for (const old of generations.keys()) if (old < generation) generations.delete(old)
      for (const partition of generations.get(generation)?.keys() ?? []) moved(partition)
    },
    reached(positions: readonly Position[], timeoutMs: number): Promise<boolean> {
      const ahead = positions.filter(({ partition, offset }) => offset > through(partition))
      if (ahead.length === 0) return Promise.resolve(true)
      if (stopped) return Promise.resolve(false)
      if (waiters.size >= waitersMax) {
        throw new AppError('overloaded', 'Too many requests wait for their operations.', { retryAfter: 1 })
      }
      return new Promise((resolve) => {
        const end = (reached: boolean) => {
          clearTimeout(timer)
          waiters.delete(waiter)
          for (const one of waiter.missing) missingIn(one.partition).remove(one)
          resolve(reached)
        }
        const timer = setTimeout(end, timeoutMs, false)
        const waiter: Waiter = { missing: [], left: ahead.length, resolve: end }
        waiter.missing = ahead.map(({ partition, offset }) => ({ partition, offset, waiter }))
        for (const one of waiter.missing) missingIn(one.partition).add(one)
        waiters.add(waiter)
      })
    },
    /** Ends all waiting with false, and answers later calls at once. */
    stopWaiting(): void {
      stopped = true
      for (const waiter of [...waiters]) waiter.resolve(false)
    },
  }
}

export interface ByOffset<T extends { readonly offset: number }> {
  add(item: T): void
  /** Nothing happens for one that is not there (any more). */
  remove(item: T): void
  /** Removes and gives the items up to this offset, smallest first. */
  takeThrough(offset: number): T[]
}

/** Offsets come in nearly rising order, so that an item is nearly always added at the end. */
export function createByOffset<T extends { readonly offset: number }>(): ByOffset<T> {
  const items: T[] = []

  /** The index of the first item at or beyond `offset`. */
  function firstAt(offset: number): number {
    let low = 0
    let high = items.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (items[middle]!.offset < offset) low = middle + 1
      else high = middle
    }
    return low
  }

  return {
    add(item) {
      items.splice(firstAt(item.offset + 1), 0, item)
    },
    remove(item) {
      // Only those of the same offset are looked at: one that was taken is not searched for among all the others.
      for (let at = firstAt(item.offset); items[at]?.offset === item.offset; at++) {
        if (items[at] === item) return void items.splice(at, 1)
      }
    },
    takeThrough(offset) {
      // Mostly nothing is reached: one look at the first item says so.
      if (items.length === 0 || items[0]!.offset > offset) return []
      return items.splice(0, firstAt(offset + 1))
    },
  }
}
