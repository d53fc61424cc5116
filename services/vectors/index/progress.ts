/** Keeps `vectors.progress` true: how far each partition is applied in one generation of an index, and how many records failed. */

import type { VectorsProgress } from '#schemas/types.ts'
import type { Index } from './indexes.ts'

export interface ProgressParts {
  index: Index
  generation: number
  /** Epoch of vectors.commands. */
  epoch: number
  /** Resolves once every record that was written before is read. */
  catchUp(): Promise<void>
  /** The last record of this generation, epoch and partition. */
  latest(partition: number): VectorsProgress | undefined
  /** Must be durable when it resolves. */
  publish(records: VectorsProgress[]): Promise<void>
}

interface PartitionProgress {
  appliedThrough: number
  failures: number
  /** Failures up to this offset are in `failures` already: a repeated record is not counted again. */
  countedThrough: number
}

export interface ProgressKeeper {
  /** Takes up gained partitions where the last record left them, and repeats that record. */
  assigned(partitions: { partition: number; committed: number | null }[]): Promise<void>
  /** Counts a record that could not be applied. */
  failed(partition: number, offset: number): void
  /** Tells that everything through this offset is applied. */
  applied(partition: number, throughOffset: number): Promise<void>
  /** Writes the last record of these partitions again. */
  repeat(partitions: number[]): Promise<void>
}

export function createProgress(parts: ProgressParts): ProgressKeeper {
  const partitions = new Map<number, PartitionProgress>()

  function recordOf(partition: number, progress: PartitionProgress): VectorsProgress {
    return {
      index: parts.index.name,
      generation: parts.generation,
      partition,
      epoch: parts.epoch,
      applied_through: progress.appliedThrough,
      failures: progress.failures,
    }
  }
  function publishOf(numbers: number[]): Promise<void> {
    const records = numbers.flatMap((partition) => {
      const progress = partitions.get(partition)
      return progress ? [recordOf(partition, progress)] : []
    })
    return records.length > 0 ? parts.publish(records) : Promise.resolve()
  }

  return {
    async assigned(gained) {
      await parts.catchUp()
      for (const { partition, committed } of gained) {
        const last = parts.latest(partition)
        const countedThrough = last?.applied_through ?? -1
        partitions.set(partition, {
          appliedThrough: Math.max((committed ?? 0) - 1, countedThrough),
          failures: last?.failures ?? 0,
          countedThrough,
        })
      }
      await publishOf(gained.map((one) => one.partition))
    },
    failed(partition, offset) {
      const progress = partitions.get(partition)
      if (!progress || offset <= progress.countedThrough) return
      progress.failures += 1
      progress.countedThrough = offset
    },
    async applied(partition, throughOffset) {
      const progress = partitions.get(partition)
      if (!progress) return
      progress.appliedThrough = Math.max(progress.appliedThrough, throughOffset)
      await publishOf([partition])
    },
    repeat: publishOf,
  }
}
