/** When the oldest record that a reader group has not read was written, partition by partition. */

import { readFirst } from '#runtime/follow/read-records.ts'
import type { GroupLag, LagParts, PartitionLag } from './lag.ts'

export interface OldestUnread {
  /** The position that the group had then. */
  position: number
  /** When the record was appended, in ms since 1970. */
  atMs: number
}

/** By partition; one where nothing waits, or nothing is left of what waited, is missing. Throws AppError `log_unavailable`. */
export async function readOldestUnread(
  { eventLog, locations }: Pick<LagParts, 'eventLog' | 'locations'>,
  { topic, partitions }: Pick<GroupLag, 'topic' | 'partitions'>,
  signal: AbortSignal,
): Promise<Map<number, OldestUnread>> {
  const waiting = partitions.filter(({ lag }) => lag > 0)
  const positions = new Map(waiting.map((one) => [one.partition, positionOf(one)]))
  const physicalName = locations.get(topic)?.physicalName ?? topic
  const found = await readFirst({ eventLog, topic: physicalName, positions, signal })
  return new Map(
    [...found].map(([partition, { timestamp }]) => [
      partition,
      { position: positions.get(partition)!, atMs: timestamp },
    ]),
  )
}

/** The first offset that the group has not read and that the log still holds. */
export function positionOf({ committed, start }: Pick<PartitionLag, 'committed' | 'start'>): number {
  return Math.max(committed ?? start, start)
}
