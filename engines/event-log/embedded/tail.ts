/** Reads all partitions of a topic, from its beginning or its end, and knows when it has caught up. */

import { AppError } from '#lib/errors.ts'
import type { Tail, TailOptions } from '../port.ts'
import { fetchBytesDefault } from './member.ts'
import { createPartitionReader, type PartitionReader, type ReaderOptions } from './partition-reader.ts'
import type { PartitionState, Topic } from './topics.ts'

export interface TailParts {
  fetch: ReaderOptions['fetch']
  fault(error: unknown): void
  alive(): boolean
}

export function createTail(topic: Topic, options: TailOptions, parts: TailParts): Tail {
  const readers = new Map<PartitionState, PartitionReader>()
  const targets = new Map(topic.partitions.map((state) => [state, state.end]))
  const ready = Promise.withResolvers<void>()
  // Who closes a tail early need not wait for it.
  ready.promise.catch(() => {})
  let closed = false

  function open(state: PartitionState, position: number): void {
    const reader = createPartitionReader({
      state,
      fetch: parts.fetch,
      bytesMax: fetchBytesDefault,
      records(records) {
        options.records(state.partition, records)
        if (targets.size > 0) setImmediate(look)
      },
      fault: parts.fault,
    })
    readers.set(state, reader)
    reader.seek(position)
  }

  function look(): void {
    for (const [state, end] of targets) {
      if (state.gone || (readers.get(state)?.position() ?? 0) >= end) targets.delete(state)
    }
    if (targets.size === 0) ready.resolve()
  }

  /** Partitions that were added hold nothing older than the tail: they are read whole. */
  function grow(): void {
    for (const state of topic.partitions) if (!readers.has(state)) open(state, state.start)
  }

  for (const state of topic.partitions) open(state, options.from === 'end' ? state.end : state.start)
  topic.watchers.add(grow)
  setImmediate(look)

  const current = () =>
    !closed &&
    parts.alive() &&
    [...readers].every(([state, reader]) => !state.gone && (reader.position() ?? -1) >= state.end)

  return {
    ready: ready.promise,
    current,
    caughtUp: async () => current(),
    positions: () =>
      new Map([...readers].map(([state, reader]) => [state.partition, reader.position() ?? state.start])),
    async close() {
      if (closed) return
      closed = true
      topic.watchers.delete(grow)
      for (const reader of readers.values()) reader.stop()
      ready.reject(new AppError('shutting_down', 'The tail was closed before it had caught up.'))
    },
  }
}
