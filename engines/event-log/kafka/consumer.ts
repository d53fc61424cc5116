/**
 * A member of a consumer group as the port describes it, without the rebalances and resets that kafkajs makes by
 * itself.
 */

import type { Batch, Kafka } from 'kafkajs'
import type { Logger } from 'pino'
import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type {
  CommitResult,
  CommittedPosition,
  ConsumerListener,
  GainedPartition,
  GroupConsumer,
  PartitionRange,
} from '../port.ts'
import { faultType } from './faults.ts'
import { type MemberHandlers, type MemberOptions, startMember } from './member.ts'
import { createOwnedPartitions, type OwnedPartition } from './owned-partitions.ts'
import { storedRecord } from './record.ts'

export interface ConsumerParts {
  kafka: Kafka
  log: Logger
  offsets(): Promise<PartitionRange[]>
  committed(): Promise<CommittedPosition[]>
  isCompacted(): Promise<boolean>
}

export interface KafkaGroupConsumer extends GroupConsumer {
  /** The next offset of every owned partition that is being read. */
  positions(): Map<number, number>
}

const metadataBytesMax = 4_096
const commitTimeoutMs = 5_000
const retryPause = { baseMs: 100, maxMs: 2_000 }

export function openConsumer(
  options: MemberOptions,
  listener: ConsumerListener,
  parts: ConsumerParts,
): KafkaGroupConsumer {
  const { log } = parts
  const partitions = createOwnedPartitions()
  let lastHeartbeat = 0
  let compacted: boolean | undefined
  let closed = false
  let waiting: OwnedPartition[] = []

  const of = (owned: OwnedPartition) => [{ topic: options.topic, partitions: [owned.partition] }]
  const silence = (owned: OwnedPartition) => member.act((consumer) => consumer.pause(of(owned)))
  function read(owned: OwnedPartition): void {
    const { partition, position } = owned
    member.act((consumer) => {
      if (position === null) return consumer.pause(of(owned))
      consumer.seek({ topic: options.topic, partition, offset: String(position) })
      if (owned.paused) consumer.pause(of(owned))
      else consumer.resume(of(owned))
    })
  }
  function startAt(owned: OwnedPartition, position: number): void {
    owned.position = position
    read(owned)
  }
  function report(lost: number[]): void {
    waiting = waiting.filter((owned) => partitions.holds(owned))
    if (lost.length > 0 && !closed) listener.lost(lost)
  }

  /** Tries until it succeeds or none of the partitions is owned any more. */
  async function insist(
    some: OwnedPartition[],
    what: string,
    work: (still: OwnedPartition[]) => Promise<void>,
  ): Promise<void> {
    for (let failures = 0; !closed; failures++) {
      const still = some.filter((owned) => partitions.holds(owned))
      if (still.length === 0) return
      try {
        return await work(still)
      } catch (error) {
        log.warn(
          { group: options.group, topic: options.topic, error: describeError(error) },
          `${what}: trying again`,
        )
        await sleep(backoffMs(failures, retryPause))
      }
    }
  }
  async function prepare(gained: OwnedPartition[], former: GainedPartition['former']): Promise<void> {
    const [ranges, committed] = await Promise.all([parts.offsets(), parts.committed()])
    compacted ??= await parts.isCompacted()
    const rangeOf = new Map(ranges.map((range) => [range.partition, range]))
    const missing = gained.find((owned) => !rangeOf.has(owned.partition))
    if (missing) throw new Error(`the offsets of partition ${missing.partition} are not known yet`)
    const still = gained.filter((owned) => partitions.holds(owned))
    if (still.length === 0 || closed) return
    const gains = still.map(({ partition }) => ({
      ...rangeOf.get(partition)!,
      committed: committed.find((one) => one.partition === partition) ?? null,
      former,
    }))
    const starts = await listener.assigned(gains)
    for (const owned of still) {
      const start = starts.get(owned.partition)
      if (start === undefined || !partitions.holds(owned) || owned.position !== null) continue
      const range = rangeOf.get(owned.partition)!
      if (start >= range.start && start <= range.end) startAt(owned, start)
      else check(owned, start)
    }
  }
  /** The log may have moved since it was asked: only a position that is outside now is reported. */
  function check(owned: OwnedPartition, position: number, sure = false): void {
    owned.position = null
    silence(owned)
    void insist([owned], 'asking for the offsets of a partition', async () => {
      const range = (await parts.offsets()).find((one) => one.partition === owned.partition)
      if (!range) throw new Error('the partition is not known yet')
      if (closed || !partitions.holds(owned) || owned.position !== null) return
      const { start, end } = range
      if (!sure && position >= start && position <= end) startAt(owned, position)
      else listener.misplaced(owned.partition, { position, start, end })
    })
  }

  const handlers: MemberHandlers = {
    claim: partitions.claim,
    assigned(joined, at) {
      lastHeartbeat = at
      const { gained, lost } = partitions.take(joined)
      waiting.push(...gained)
      for (const owned of gained) silence(owned)
      report(lost)
    },
    heartbeat(at) {
      lastHeartbeat = at
    },
    joined() {
      for (const owned of partitions.all()) read(owned)
      const gained = waiting.splice(0)
      // A group's first generation has no former owners; in later ones there may be one that still works.
      const former = partitions.member()?.generation === 1 ? 'none' : 'unknown'
      if (gained.length > 0) void insist(gained, 'taking over partitions', (still) => prepare(still, former))
    },
    batch(batch) {
      const owned = partitions.get(batch.partition)
      if (!owned || owned.position === null) return
      const { position } = owned
      const from = Number((batch as Batch & { fetchedOffset: string }).fetchedOffset)
      const gap = compacted === false && Number(batch.firstOffset()) > position
      if (from > position || gap) return check(owned, position, gap)
      // An older fetch may still arrive after a seek: what is below was read.
      const last = Number(batch.lastOffset())
      if (last < position) return
      owned.position = last + 1
      const records = []
      for (const message of batch.messages) {
        if (from >= position || Number(message.offset) >= position)
          records.push(storedRecord(batch.partition, message))
      }
      if (records.length > 0) listener.records(batch.partition, records)
    },
    skipped(partition, first, last) {
      const owned = partitions.get(partition)
      if (!owned || owned.position === null) return
      if (last >= owned.position && (first ?? last) <= owned.position) owned.position = last + 1
    },
    outOfRange(partition) {
      const owned = partitions.get(partition)
      if (owned && owned.position !== null) check(owned, owned.position)
    },
    ended: () => report(partitions.clear()),
  }
  const member = startMember(parts.kafka, options, handlers, log)

  async function commit(partition: number, offset: number, metadata: string): Promise<CommitResult> {
    if (Buffer.byteLength(metadata) > metadataBytesMax) {
      throw new AppError('validation_failed', `Commit metadata holds at most ${metadataBytesMax} bytes.`)
    }
    // Ownership and generation are those of one assignment: both are read in this tick, and sent as they are.
    const owned = partitions.get(partition)
    const [joined, membership] = [partitions.member(), member.membership()]
    if (closed || !owned || !joined || !membership) return 'lost'
    try {
      const committing = membership.commit(joined, partition, offset, metadata)
      await withTimeout(committing, commitTimeoutMs, () => new Error('no answer in time'))
      return 'committed'
    } catch (error) {
      const isOwner = !closed && partitions.holds(owned)
      log.debug(
        { group: options.group, partition, error: faultType(error) ?? describeError(error) },
        'commit refused',
      )
      return isOwner ? 'again' : 'lost'
    }
  }
  return {
    assignment: () => partitions.all().map(({ partition }) => partition),
    positions: () =>
      new Map(
        partitions
          .all()
          .flatMap(({ partition, position }) => (position === null ? [] : [[partition, position]])),
      ),
    commit,
    pause(partition) {
      const owned = partitions.get(partition)
      if (!owned) return
      owned.paused = true
      silence(owned)
    },
    resume(partition) {
      const owned = partitions.get(partition)
      if (!owned) return
      owned.paused = false
      if (owned.position !== null) member.act((consumer) => consumer.resume(of(owned)))
    },
    seek(partition, offset) {
      const owned = partitions.get(partition)
      if (owned) startAt(owned, offset)
    },
    alive: () =>
      !closed && partitions.member() !== undefined && Date.now() - lastHeartbeat < options.sessionTimeoutMs,
    async close() {
      closed = true
      partitions.clear()
      await member.close()
    },
  }
}
