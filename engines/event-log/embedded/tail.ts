/** Reads the partitions of a topic without a group, and knows when it has caught up. */

import { AppError } from '#lib/errors.ts'
import type { Tail, TailOptions } from '../port.ts'
import { createTaking, startOf } from '../taking.ts'
import {
  createPartitionReader,
  fetchBytesDefault,
  type PartitionReader,
  type ReaderOptions,
} from './partition-reader.ts'
import type { Fetched } from './reader-thread.ts'
import type { PartitionState, Topic } from './topics.ts'

interface TailParts {
  fetch: ReaderOptions['fetch']
  fault(error: unknown): void
  alive(): boolean
}

export function createTail(topic: Topic, options: TailOptions, parts: TailParts): Tail {
  const readers = new Map<PartitionState, PartitionReader>()
  const isWanted = ({ partition }: PartitionState) => options.partitions?.includes(partition) ?? true
  const wanted = topic.partitions.filter(isWanted)
  const targets = new Map(wanted.map((state) => [state, state.end]))
  const ready = Promise.withResolvers<void>()
  // Who closes a tail early need not wait for it.
  ready.promise.catch(() => {})
  let closed = false
  const byNumber = (partition: number) => readers.get(topic.partitions[partition]!)
  const gate = options.frugal ? createGate() : undefined
  /** By partition: lets another one fetch, when this one has what it fetched. */
  const leaves = new Map<number, () => void>()
  const taking = createTaking(
    {
      pause: (partition) => byNumber(partition)?.pause(),
      resume: (partition) => byNumber(partition)?.resume(),
    },
    (partition, records) => {
      const given = options.records(partition, records)
      if (given) return given.finally(() => leaves.get(partition)?.())
      leaves.get(partition)?.()
      return undefined
    },
    look,
  )

  function open(state: PartitionState, position: number): void {
    /** What it fetched last is not taken yet; null: it is on its way, or was never given. */
    let fetched: 'given' | null | undefined
    function leave(): void {
      if (fetched === undefined) return
      fetched = undefined
      gate?.leave()
    }
    async function fetchInTurn(id: number, from: number, bytesMax: number): Promise<Fetched> {
      await gate?.enter()
      fetched = null
      try {
        return closed ? { gone: true } : await parts.fetch(id, from, bytesMax)
      } finally {
        // Records are given out at once, unless there are none, or the reader has moved.
        setImmediate(() => {
          if (fetched === null) leave()
        })
      }
    }
    leaves.set(state.partition, leave)
    const reader = createPartitionReader({
      state,
      fetch: gate ? fetchInTurn : parts.fetch,
      bytesMax: options.fetchBytesMax ?? fetchBytesDefault,
      records(records) {
        if (fetched === null) fetched = 'given'
        taking.give(state.partition, records)
        if (targets.size > 0) setImmediate(look)
      },
      misplaced(problem) {
        options.misplaced?.(state.partition, problem)
        // Whoever hears of it may close the tail.
        if (!closed) reader.seek(problem.start)
      },
      fault: parts.fault,
    })
    readers.set(state, reader)
    reader.seek(position)
  }
  /** By partition: the first offset that is not taken. */
  function positions(): Map<number, number> {
    return taking.taken(
      new Map([...readers].map(([state, reader]) => [state.partition, reader.position() ?? state.start])),
    )
  }

  function look(): void {
    if (targets.size === 0) return
    const now = positions()
    for (const [state, end] of targets) {
      if (state.gone || (now.get(state.partition) ?? 0) >= end) targets.delete(state)
    }
    if (targets.size === 0) ready.resolve()
  }

  /** Partitions that were added hold nothing older than the tail: they are read whole. */
  function grow(): void {
    for (const state of topic.partitions) if (isWanted(state) && !readers.has(state)) open(state, state.start)
  }

  for (const state of wanted) {
    const { partition, start, end } = state
    open(state, startOf({ partition, start, end }, options.from))
  }
  topic.watchers.add(grow)
  setImmediate(look)

  function current(): boolean {
    if (closed || !parts.alive()) return false
    const now = positions()
    return [...readers.keys()].every((state) => !state.gone && (now.get(state.partition) ?? -1) >= state.end)
  }

  return {
    ready: ready.promise,
    current,
    caughtUp: async () => current(),
    positions,
    async close() {
      if (closed) return
      closed = true
      topic.watchers.delete(grow)
      for (const reader of readers.values()) reader.stop()
      ready.reject(new AppError('shutting_down', 'The tail was closed before it had caught up.'))
    },
  }
}

/** One at a time, in the order in which they came. */
function createGate() {
  const waiting: (() => void)[] = []
  let isOpen = true
  return {
    async enter(): Promise<void> {
      if (isOpen) isOpen = false
      else await new Promise<void>((resolve) => waiting.push(resolve))
    },
    leave(): void {
      const next = waiting.shift()
      if (next) next()
      else isOpen = true
    },
  }
}
