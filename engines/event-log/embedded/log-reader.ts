/** Reads chosen partitions of a topic from chosen offsets on, for whoever keeps its own positions. */

import { AppError } from '#lib/errors.ts'
import type { LogReader, ReadOptions } from '../port.ts'
import { fetchBytesDefault } from './member.ts'
import { createPartitionReader, type PartitionReader, type ReaderOptions } from './partition-reader.ts'
import type { Topic } from './topics.ts'

/** Throws AppError `not_found` for a partition that does not exist. */
export function openLogReader(
  topic: Topic,
  { from, listener, fetchBytesMax = fetchBytesDefault }: ReadOptions,
  parts: Pick<ReaderOptions, 'fetch' | 'fault'>,
): LogReader {
  const readers = new Map<number, PartitionReader>()
  let closed = false

  function open(partition: number): PartitionReader {
    const state = topic.partitions[partition]
    if (!state) {
      throw new AppError('not_found', `The topic ${topic.spec.name} has no partition ${partition}.`)
    }
    const reader = createPartitionReader({
      ...parts,
      state,
      bytesMax: fetchBytesMax,
      records: (records) => listener.records(partition, records),
      misplaced: (problem) => listener.misplaced(partition, problem),
    })
    readers.set(partition, reader)
    return reader
  }
  function seek(partition: number, offset: number): void {
    if (!closed) (readers.get(partition) ?? open(partition)).seek(offset)
  }

  // All of them first: what does not exist is refused before anything is read.
  for (const partition of from.keys()) open(partition)
  for (const [partition, offset] of from) seek(partition, offset)
  return {
    seek,
    pause: (partition) => readers.get(partition)?.pause(),
    resume: (partition) => readers.get(partition)?.resume(),
    positions: () =>
      new Map(
        [...readers].flatMap(([partition, reader]) => {
          const position = reader.position()
          return position === null ? [] : [[partition, position]]
        }),
      ),
    async close() {
      closed = true
      for (const reader of readers.values()) reader.stop()
    },
  }
}
