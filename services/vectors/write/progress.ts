/**
 * How far each generation of an index is: kept in `vectors.progress`, written and read by the index's reader groups.
 */

import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { partitionOf } from '#lib/murmur2.ts'
import { type Following, type FollowParts, followTopic } from '#runtime/follow/follow-topic.ts'
import type { Codec, Publisher } from '#runtime/publish/messages.ts'
import type { VectorsProgress } from '#schemas/types.ts'
import { parseProgressKey, vectorsCommands, vectorsProgress } from '#topics/catalog.ts'
import type { Index } from './rebuild.ts'

const catchUpTimeoutMs = 15_000
const catchUpPollMs = 10
/** Read on for so long after it was asked for: a writer reports far more often than it wants to know. */
const openMs = 10_000

export type ProgressTail = ReturnType<typeof openProgressTail>

type TailParts = FollowParts & { index: Index; codec: Codec; publisher: Publisher }

/** What was reported so far of an index, read when `catchUp` is called. */
export function openProgressTail(parts: TailParts) {
  const greatest = new Map<string, VectorsProgress>()
  const topic = vectorsProgress
  const keep = (record: VectorsProgress) => {
    const slot = slotOf(record)
    const known = greatest.get(slot)
    if (known && known.applied_through > record.applied_through) return
    greatest.set(slot, { ...record, failures: Math.max(record.failures, known?.failures ?? 0) })
  }
  const forget = (reset: ReturnType<typeof parseProgressKey>) => {
    if (reset?.index !== parts.index.name) return
    for (const [slot, { generation, partition }] of greatest) {
      if (generation === reset.generation && partition === reset.partition) greatest.delete(slot)
    }
  }
  /** By key: what could not be decoded, until a later record says how far it is. */
  const gaps = new Map<string, string>()
  const { physicalName } = parts.publisher.locationOf(topic)
  const read = new Map<number, number>()
  let tail: Promise<Following> | undefined
  let rest: NodeJS.Timeout | undefined

  function opened(): Promise<Following> {
    clearTimeout(rest)
    rest = setTimeout(() => void close(), openMs).unref()
    tail ??= follow().catch((error: unknown) => {
      tail = undefined
      throw error
    })
    return tail
  }
  async function close(): Promise<void> {
    clearTimeout(rest)
    const open = tail
    tail = undefined
    if (!open) return
    const following = await open.catch(() => null)
    await following?.close()
    for (const [partition, next] of following?.positions() ?? []) read.set(partition, next)
  }
  const follow = () =>
    followTopic(parts, topic, {
      from: ({ partition, start, end }) => Math.min(end, Math.max(start, read.get(partition) ?? start)),
      onMessage({ key, value }) {
        gaps.delete(key)
        if (value === null) forget(parseProgressKey(key))
        else if (value.index === parts.index.name) keep(value)
      },
      onFault({ key, partition, offset }, reason) {
        gaps.set(
          key?.toString('utf8') ?? '',
          `${partition}:${offset} of ${topic.name} cannot be read: ${reason}`,
        )
      },
    })

  /**
   * Resolves once all records that were acknowledged before the call are read. Throws AppError `log_unavailable`, and an
   * error that names the record while one of them cannot be decoded: what it counted must not begin again at 0.
   */
  async function catchUp(): Promise<void> {
    const until = performance.now() + catchUpTimeoutMs
    const following = await opened()
    const ends = (await parts.eventLog.offsets(physicalName)).filter((range) => range.end > range.start)
    const reached = () =>
      ends.every((range) => (following.positions().get(range.partition) ?? 0) >= range.end)
    while (!reached()) {
      if (performance.now() > until) {
        throw new AppError('log_unavailable', 'The progress of the index could not be read in time.')
      }
      await sleep(catchUpPollMs)
    }
    for (const [key, gap] of gaps) {
      if ((parseProgressKey(key)?.index ?? parts.index.name) === parts.index.name) throw new Error(gap)
    }
  }

  return {
    catchUp,
    /** The record with the greatest offset so far. */
    latest: (of: Parameters<typeof slotOf>[0]): VectorsProgress | undefined => greatest.get(slotOf(of)),
    /** The last applied offset of each partition in a generation, as far as it is read. */
    appliedThrough(generation: number, epoch: number): Map<number, number> {
      const applied = new Map<number, number>()
      for (const record of greatest.values()) {
        if (record.generation !== generation || record.epoch !== epoch) continue
        applied.set(record.partition, record.applied_through)
      }
      return applied
    },
    close,
  }
}

/**
 * Appends progress of one generation. All of a generation lies in one partition: what a writer reports of many
 * partitions at a time is one request to one broker, and wakes its readers once. Throws what the publisher throws.
 */
export async function publishProgress(
  publisher: Publisher,
  of: { index: Index; generation: number },
  messages: { key: VectorsProgress; value: VectorsProgress | null }[],
): Promise<void> {
  const route = Buffer.from(`${of.index.name}/${of.generation}`)
  const partition = partitionOf(route, publisher.locationOf(vectorsProgress).partitions)
  await publisher.publish(vectorsProgress, messages, { partition })
}

/**
 * Sets the progress of a generation to positions that an operator chose, also back: a tombstone says that the greatest
 * known does not count any more. For a group without members, after its positions were set.
 */
export async function resetProgress(
  parts: TailParts,
  generation: number,
  positions: readonly { partition: number; offset: number }[],
): Promise<void> {
  const { epoch } = parts.publisher.locationOf(vectorsCommands)
  const tail = openProgressTail(parts)
  try {
    await tail.catchUp()
    for (const { partition, offset } of positions) {
      const last = tail.latest({ generation, epoch, partition })
      if (!last) continue
      const value = { ...last, applied_through: offset - 1 }
      const gone = { key: value, value: null }
      // Up to version 0.1.0 a record lay in the partition of its key.
      await parts.publisher.publish(vectorsProgress, [gone])
      await publishProgress(parts.publisher, { index: parts.index, generation }, [
        gone,
        { key: value, value },
      ])
    }
  } finally {
    await tail.close()
  }
}

function slotOf(record: { generation: number; epoch: number; partition: number }): string {
  return `${record.generation}/${record.epoch}/${record.partition}`
}

interface PartitionProgress {
  appliedThrough: number
  failures: number
  /** Failures up to this offset are in `failures` already: a repeated record is not counted again. */
  countedThrough: number
}

/** Counts what one reader group has applied of its partitions. `epoch` is that of vectors.commands. */
export function createProgress(
  publisher: Publisher,
  of: { index: Index; generation: number; epoch: number },
  tail: Pick<ProgressTail, 'catchUp' | 'latest'>,
) {
  const { index, generation, epoch } = of
  const partitions = new Map<number, PartitionProgress>()
  let running = Promise.resolve()
  /** Partitions of the next publication. */
  let next: { partitions: Set<number>; published: Promise<void> } | undefined

  /** Publishes the last record of these partitions. */
  async function publishFor(numbers: number[]): Promise<void> {
    const messages = numbers.flatMap((partition) => {
      const progress = partitions.get(partition)
      if (!progress) return []
      const { appliedThrough, failures } = progress
      const place = { index: index.name, generation, partition, epoch }
      const value = { ...place, applied_through: appliedThrough, failures }
      return [{ key: value, value }]
    })
    if (messages.length > 0) await publishProgress(publisher, of, messages)
  }

  /** Under load those that are done meanwhile share an append; at rest nothing waits, not even for a turn of the event loop. */
  function publishNext() {
    const due = new Set<number>()
    const published = running
      .catch(() => {})
      .then(() => {
        next = undefined
        return publishFor([...due])
      })
    running = published
    return { partitions: due, published }
  }

  return {
    /**
     * Goes on in gained partitions from their last record, and publishes that record again, which nobody waits for.
     * Resolves with the first offset of each that is neither committed nor reported as applied.
     */
    async assigned(gained: { partition: number; committed: number | null }[]): Promise<Map<number, number>> {
      await tail.catchUp()
      const next = new Map<number, number>()
      for (const { partition, committed } of gained) {
        const last = tail.latest({ generation, epoch, partition })
        const countedThrough = last?.applied_through ?? -1
        const appliedThrough = Math.max((committed ?? 0) - 1, countedThrough)
        partitions.set(partition, { appliedThrough, failures: last?.failures ?? 0, countedThrough })
        next.set(partition, appliedThrough + 1)
      }
      // Nothing depends on it: a reader that missed the record learns it from the next one, or from a repeat.
      publishFor(gained.map((one) => one.partition)).catch(() => {})
      return next
    },
    /** Counts a record that could not be applied. */
    failed(partition: number, offset: number): void {
      const progress = partitions.get(partition)
      if (!progress || offset <= progress.countedThrough) return
      progress.failures += 1
      progress.countedThrough = offset
    },
    /** Publishes that everything through this offset is applied; durable when it resolves. */
    async applied(partition: number, throughOffset: number): Promise<void> {
      const progress = partitions.get(partition)
      if (!progress) return
      progress.appliedThrough = Math.max(progress.appliedThrough, throughOffset)
      next ??= publishNext()
      next.partitions.add(partition)
      await next.published
    },
    repeat: publishFor,
  }
}
