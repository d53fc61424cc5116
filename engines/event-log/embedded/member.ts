/** One member of a consumer group: it reads its partitions, calls its listener and commits. */

import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { endWork } from '../hand-over.ts'
import type { CommitResult, ConsumeOptions, GainedPartition, GroupConsumer } from '../port.ts'
import { createPartitionReader, type PartitionReader, type ReaderOptions } from './partition-reader.ts'
import type { Positions } from './positions.ts'
import type { Member, Subscription } from './subscription.ts'
import { rangeOf } from './topics.ts'
import type { WriteQueue } from './write-queue.ts'

export const fetchBytesDefault = 1_048_576
/** Bytes of a commit's metadata, as Kafka has it (offset.metadata.max.bytes). */
const metadataBytesMax = 4_096
/** A commit that is not durable by then answers `again`. */
const commitTimeoutMs = deadlines.engine.logCommitMs
/** Between two tries to start what was gained, while the file takes no writes. */
const startAgain = { baseMs: 100, maxMs: 2_000 }

/** What all members share. */
export interface MemberParts {
  positions: Positions
  queue: WriteQueue
  fetch: ReaderOptions['fetch']
  fault(error: unknown): void
  /** False when the threads are gone. */
  alive(): boolean
}

export function createMember(
  subscription: Subscription,
  options: ConsumeOptions,
  parts: MemberParts,
): Member {
  const { group, topic } = subscription
  const { listener } = options
  const readers = new Map<number, PartitionReader>()
  let closed = false

  function openReader(partition: number): PartitionReader {
    return createPartitionReader({
      state: topic.partitions[partition]!,
      fetch: parts.fetch,
      bytesMax: options.fetchBytesMax ?? fetchBytesDefault,
      records: (records) => listener.records(partition, records),
      misplaced: (problem) => listener.misplaced(partition, problem),
      fault: parts.fault,
    })
  }

  function drop(partition: number): void {
    const reader = readers.get(partition)
    if (!reader) return
    readers.delete(partition)
    reader.stop()
  }

  /** Tries until they are started or lost: nothing else would start them. */
  async function start(gained: Map<number, PartitionReader>): Promise<void> {
    const still = () => [...gained].filter(([partition, reader]) => readers.get(partition) === reader)
    for (let tries = 0; still().length > 0; tries++) {
      try {
        return await startOnce(still)
      } catch (error) {
        parts.fault(error)
        await sleep(Math.max(20, backoffMs(tries, startAgain)))
      }
    }
  }

  async function startOnce(still: () => [number, PartitionReader][]): Promise<void> {
    // Commits of the former owner that were accepted are written by now: this read comes after them.
    await parts.queue.commit([])
    const gains = still().map(
      ([partition]): GainedPartition => ({
        ...rangeOf(topic.partitions[partition]!),
        committed: parts.positions.get(group, topic.spec.name, partition),
      }),
    )
    if (gains.length === 0) return
    const starts = await listener.assigned(gains)
    for (const [partition, reader] of still()) {
      const offset = starts.get(partition)
      if (offset !== undefined && !reader.started()) reader.seek(offset)
    }
  }

  const consumer: GroupConsumer = {
    assignment: () => [...readers.keys()].toSorted((a, b) => a - b),
    async commit(partition, offset, metadata) {
      checkCommit(offset, metadata)
      if (closed || !readers.has(partition)) return 'lost'
      return store({ group, topic: topic.spec.name, partition, offset, metadata }, parts)
    },
    pause: (partition) => readers.get(partition)?.pause(),
    resume: (partition) => readers.get(partition)?.resume(),
    seek: (partition, offset) => readers.get(partition)?.seek(offset),
    alive: () => !closed && parts.alive(),
    async close() {
      if (closed) return
      closed = true
      for (const partition of [...readers.keys()]) drop(partition)
      subscription.members = subscription.members.filter((one) => one !== member)
      subscription.rebalance()
    },
  }
  const member: Member = {
    consumer,
    gain(partitions) {
      // It may have been closed by what another one did when it lost its own: the next round shares these out.
      if (closed) return
      const gained = new Map(partitions.map((partition) => [partition, openReader(partition)]))
      for (const [partition, reader] of gained) readers.set(partition, reader)
      void start(gained)
    },
    async handOver(partitions) {
      try {
        await endWork(listener, partitions)
      } catch (error) {
        parts.fault(error)
      }
      if (closed) return
      for (const partition of partitions) drop(partition)
      try {
        listener.lost(partitions)
      } catch (error) {
        parts.fault(error)
      }
    },
  }
  return member
}

function checkCommit(offset: number, metadata: string): void {
  if (!Number.isSafeInteger(offset) || offset < 0) {
    throw new AppError('bad_request', 'A position is a whole number, 0 or more.')
  }
  if (Buffer.byteLength(metadata) > metadataBytesMax) {
    throw new AppError('payload_too_large', `Commit metadata is at most ${metadataBytesMax} bytes of UTF-8.`)
  }
}

async function store(
  row: { group: string; topic: string; partition: number; offset: number; metadata: string },
  parts: MemberParts,
): Promise<CommitResult> {
  const written = parts.queue.commit([row]).then((): CommitResult => {
    parts.positions.keep([row])
    return 'committed'
  })
  try {
    return await withTimeout(written, commitTimeoutMs, () => new Error('the commit takes too long'))
  } catch {
    return 'again'
  }
}
