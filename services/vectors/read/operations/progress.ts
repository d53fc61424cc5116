/** Follows `vectors.progress`: through which offset each index is applied, for status, waiting and back-pressure. */

import type { VectorStore } from '#engines/vectors/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { type FollowParts, followTopic } from '#runtime/follow/follow-topic.ts'
import type { Codec, Message, Position } from '#runtime/publish/messages.ts'
import type { VectorsProgress } from '#schemas/types.ts'
import { parseProgressKey, vectorsCommands, vectorsProgress } from '#topics/catalog.ts'

/** How often the live generation is asked for while a request waits, and the least time between two queries. */
const liveEveryMs = 2_000
const livePauseMs = 200
/** The topic holds one record for each partition and generation. */
const readyMsMax = 30_000

/** How far one index of the points is: the vector engine's or the relational mirror. */
export type IndexProgress = Pick<ReturnType<typeof createApplied>, 'appliedThrough' | 'failures' | 'reached'>

/** Progress of the vector engine, and in `mirrored` that of the relational mirror. */
export type Progress = Awaited<ReturnType<typeof openProgress>>

type Live = Pick<VectorStore, 'liveGeneration'>

/**
 * Tails the topic from its beginning and keeps the greatest offset of each (generation, partition). A generation goes
 * live only after it has passed the old one in every partition, so an old answer about the live one may delay a
 * request, but never reports something as applied too early. Resolves once all that was reported before is known;
 * throws AppError `log_unavailable`.
 */
export async function openProgress(parts: FollowParts & { codec: Codec; vectors: Live; mirror: Live }) {
  const vectors = createIndex(parts.vectors, { askFirst: true })
  const mirrored = createIndex(parts.mirror, { askFirst: false })
  const indexes: Record<string, Index | undefined> = { vectors, relational: mirrored }
  const epoch = parts.publisher.locationOf(vectorsCommands).epoch

  function takeMessage({ key, value }: Message<VectorsProgress>): void {
    const of = value ?? parseProgressKey(key)
    if (of === null || !Object.hasOwn(indexes, of.index)) return
    if (value === null) indexes[of.index]?.applied.forget(of.generation, of.partition)
    else if (value.epoch === epoch) indexes[of.index]?.take(value)
  }
  /** Ends all waiting with false, now and later: the gateway stops. */
  function stopWaiting(): void {
    vectors.applied.stopWaiting()
    mirrored.applied.stopWaiting()
  }

  await vectors.ask()
  const tail = await followTopic(parts, vectorsProgress, {
    from: 'beginning',
    onMessage: takeMessage,
    // It may have counted failures: from now on the rows are asked.
    onFault() {
      vectors.applied.missed()
      mirrored.applied.missed()
    },
  })
  try {
    const slow = () =>
      new AppError('log_unavailable', 'The progress of the indexes could not be read in time.')
    await withTimeout(tail.ready, readyMsMax, slow)
  } catch (error) {
    await tail.close()
    throw error
  }
  const timer = setInterval(() => {
    if (vectors.applied.live() === undefined) void vectors.ask()
    for (const { applied, ask } of [vectors, mirrored]) if (applied.waiting() > 0) void ask()
  }, liveEveryMs)
  timer.unref()

  return {
    ...vectors.applied,
    mirrored: {
      ...mirrored.applied,
      async reached(positions, timeoutMs) {
        // Asked only when a request waits: an embedded mirror is opened by its first call.
        if (mirrored.applied.live() === undefined) void mirrored.ask()
        return mirrored.applied.reached(positions, timeoutMs)
      },
    } as IndexProgress,
    stopWaiting,
    async close(): Promise<void> {
      clearInterval(timer)
      stopWaiting()
      await tail.close()
    },
  }
}

type Index = ReturnType<typeof createIndex>

/** Without `askFirst` the engine is not asked before a request waits. */
function createIndex(engine: Live, { askFirst }: { askFirst: boolean }) {
  const applied = createApplied()
  let asking: Promise<void> | undefined

  async function query(): Promise<void> {
    try {
      applied.goLive(await engine.liveGeneration())
    } catch {
      // The engine is away: no read succeeds meanwhile, and the timer asks again.
    }
    setTimeout(() => {
      asking = undefined
    }, livePauseMs).unref()
  }
  /** Asks the engine which generation reads see; one query at a time, with a pause between them. */
  function ask(): Promise<void> {
    asking ??= query()
    return asking
  }
  return {
    applied,
    ask,
    take(value: VectorsProgress): void {
      applied.take(value)
      const known = applied.live()
      if (value.generation !== known && (askFirst || known !== undefined)) void ask()
    },
  }
}

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

type Missing = Position & { waiter: Waiter }

/**
 * The greatest applied offset of each generation and partition, and the requests that wait for further ones. Holds state
 * only: it is given progress records and answers for the generation that is live.
 */
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
  /** The last applied offset of a partition in the generation that reads see, -1 before the first. */
  function appliedThrough(partition: number): number {
    return stateOf(partition)?.through ?? -1
  }
  function moved(partition: number): void {
    const reached = appliedThrough(partition)
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
    appliedThrough,
    /** Records of a partition that failed so far in that generation; above 0 also where that is not known. */
    failures: (partition: number): number => (stateOf(partition)?.failures ?? 0) + unknown,
    live: () => live,
    waiting: () => waiters.size,
    /** The listener is called whenever more of a partition is applied. */
    onApplied(listener: (partition: number, through: number) => void): void {
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
    /** True once all positions are applied, false when `timeoutMs` pass first. */
    async reached(positions: readonly Position[], timeoutMs: number): Promise<boolean> {
      const ahead = positions.filter(({ partition, offset }) => offset > appliedThrough(partition))
      if (ahead.length === 0) return true
      if (stopped) return false
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

export type ByOffset<T extends { readonly offset: number }> = ReturnType<typeof createByOffset<T>>

/** Offsets come in nearly rising order, so that an item is nearly always added at the end. */
export function createByOffset<T extends { readonly offset: number }>() {
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
    add(item: T): void {
      items.splice(firstAt(item.offset + 1), 0, item)
    },
    /** Nothing happens for one that is not there (any more). */
    remove(item: T): void {
      // Only those of the same offset are looked at: one that was taken is not searched for among all the others.
      for (let at = firstAt(item.offset); items[at]?.offset === item.offset; at++) {
        if (items[at] === item) return void items.splice(at, 1)
      }
    },
    /** Removes and gives the items up to this offset, smallest first. */
    takeThrough(offset: number): T[] {
      // Mostly nothing is reached: one look at the first item says so.
      if (items.length === 0 || items[0]!.offset > offset) return []
      return items.splice(0, firstAt(offset + 1))
    },
  }
}
