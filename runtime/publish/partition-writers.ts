/**
 * The writer names under which a worker publishes what it derives from a topic: one for each partition of that topic, so
 * that an instance that was paused for longer than its session, in the middle of a publish, puts no older state of a
 * record behind a newer one.
 *
 * - A name is taken over when its partition is gained, before the first publish. A late record of the former owner is
 *   refused in every partition where the new owner has published; elsewhere it lies before all that the new owner
 *   publishes.
 * - The new owner begins at the committed position, and a record is committed after what is derived from it was
 *   acknowledged. So whatever the former owner was publishing is of a record that the new owner handles again, with the
 *   same key and partition. No further fence has to be appended for that.
 */

import { isFenced } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import type { FencedPublisher, Publisher } from './messages.ts'

export interface PartitionWriters extends Closeable {
  /** Takes over the names of the partitions. Throws AppError `log_unavailable`: then call it again. */
  takeOver(gained: readonly { partition: number }[]): Promise<void>
  /**
   * The publisher of a partition whose name was taken over. A takeover may come late, from an instance that has lost the
   * partition meanwhile; so a publish that is refused as `fenced` takes the name back before it throws. Nothing more is
   * published before the runtime calls the handler again, which it does only while the group's heartbeats say that the
   * partition is still its own.
   */
  of(partition: number): Pick<Publisher, 'publish'>
}

/** `worker` is the beginning of the names. */
export function createPartitionWriters(
  publisher: Pick<Publisher, 'fenced'>,
  worker: string,
): PartitionWriters {
  const writers = new Map<number, FencedPublisher>()
  async function takeOverOne(partition: number): Promise<void> {
    const writer = await publisher.fenced(`${worker}-${partition}`)
    const former = writers.get(partition)
    writers.set(partition, writer)
    await former?.close()
  }
  return {
    async takeOver(gained) {
      await Promise.all(gained.map(({ partition }) => takeOverOne(partition)))
    },
    of(partition) {
      const writer = writers.get(partition)
      if (!writer) throw new Error(`the writer name of partition ${partition} was not taken over`)
      return {
        async publish(topic, messages, options) {
          try {
            return await writer.publish(topic, messages, options)
          } catch (error) {
            if (isFenced(error)) await takeOverOne(partition)
            throw error
          }
        },
      }
    },
    async close() {
      await Promise.all([...writers.values()].map((writer) => writer.close()))
    },
  }
}
