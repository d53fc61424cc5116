/** A tail: reads all partitions of a topic, from its beginning or its end, and knows when it has caught up. */

import { AppError } from '#lib/errors.ts'
import type { Tail, TailOptions } from '../port.ts'
import { fetchBytesDefault } from './member.ts'
import { createPartitionReader, type PartitionReader, type ReaderOptions } from './partition-reader.ts'
import type { Place, Topic } from './places.ts'

export interface TailParts {
  fetch: ReaderOptions['fetch']
  fault(error: unknown): void
  alive(): boolean
}

export function createTail(topic: Topic, options: TailOptions, parts: TailParts): Tail {
  const readers = new Map<Place, PartitionReader>()
  const targets = new Map(topic.places.map((place) => [place, place.end]))
  const ready = Promise.withResolvers<void>()
  // Who closes a tail early need not wait for it.
  ready.promise.catch(() => {})
  let closed = false

  function open(place: Place, position: number): void {
    const reader = createPartitionReader({
      place,
      fetch: parts.fetch,
      bytesMax: fetchBytesDefault,
      records(records) {
        options.records(place.partition, records)
        if (targets.size > 0) setImmediate(look)
      },
      fault: parts.fault,
    })
    readers.set(place, reader)
    reader.seek(position)
  }

  function look(): void {
    for (const [place, end] of targets) {
      if (place.gone || (readers.get(place)?.position() ?? 0) >= end) targets.delete(place)
    }
    if (targets.size === 0) ready.resolve()
  }

  /** Partitions that were added hold nothing older than the tail: they are read whole. */
  function grow(): void {
    for (const place of topic.places) if (!readers.has(place)) open(place, place.start)
  }

  for (const place of topic.places) open(place, options.from === 'end' ? place.end : place.start)
  topic.watchers.add(grow)
  setImmediate(look)

  return {
    ready: ready.promise,
    current: () =>
      !closed &&
      parts.alive() &&
      [...readers].every(([place, reader]) => !place.gone && (reader.position() ?? -1) >= place.end),
    positions: () =>
      new Map([...readers].map(([place, reader]) => [place.partition, reader.position() ?? place.start])),
    async close() {
      if (closed) return
      closed = true
      topic.watchers.delete(grow)
      for (const reader of readers.values()) reader.stop()
      ready.reject(new AppError('shutting_down', 'The tail was closed before it had caught up.'))
    },
  }
}
