/**
 * The consumer groups of the one process, in memory: members read their partitions, call their listeners and commit.
 * Partitions are shared out again when members or partitions come or go.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { WorkerClient } from '#lib/worker-rpc.ts'
import { bounded, groupActive } from '../faults.ts'
import { assignSticky, endWork } from '../membership.ts'
import type { CommitResult, ConsumeOptions, EventLog, GainedPartition, GroupConsumer } from '../port.ts'
import {
  createPartitionReader,
  fetchBytesDefault,
  type PartitionReader,
  type ReaderOptions,
} from './partition-reader.ts'
import { type Positions, rangeOf, type Topic, type Topics } from './topics.ts'
import type { WriteQueue } from './write-queue.ts'
import type { PositionRow } from './writer.ts'
import type { WriterHandlers } from './writer-thread.ts'

/** Bytes of a commit's metadata, as Kafka has it (offset.metadata.max.bytes). */
const metadataBytesMax = 4_096
/** A commit that is not durable by then answers `again`. */
const commitTimeoutMs = deadlines.engine.logCommitMs
const callTimeoutMs = deadlines.engine.logAdminMs
/** Between two tries to start gained partitions, while the file takes no writes. */
const startAgain = { baseMs: 100, maxMs: 2_000 }

/** What all members share. */
interface GroupsParts {
  positions: Positions
  queue: WriteQueue
  fetch: ReaderOptions['fetch']
  fault(error: unknown): void
  /** False when the threads are gone. */
  alive(): boolean
}

interface Member {
  consumer: GroupConsumer
  gain(partitions: number[]): void
  /** Resolves when its work on these is finished or aborted, and it has lost them. Never rejects. */
  handOver(partitions: number[]): Promise<void>
}

/** The members that read one topic for one group, in the order of their coming. */
interface Subscription {
  group: string
  topic: Topic
  members: Member[]
  /** Shares out again, soon: joins that come together make one rebalance. */
  rebalance(): void
}

export type Groups = ReturnType<typeof createGroups>

export function createGroups(parts: GroupsParts) {
  const subscriptions: Subscription[] = []

  function subscriptionOf(group: string, topic: Topic): Subscription {
    const known = subscriptions.find((one) => one.group === group && one.topic === topic)
    if (known) return known
    const subscription = createSubscription(group, topic)
    subscriptions.push(subscription)
    return subscription
  }
  /** Members of a group, of one topic or of all. */
  function members(group: string, topic?: string): Member[] {
    return subscriptions
      .filter((one) => one.group === group && (topic === undefined || one.topic.spec.name === topic))
      .flatMap((one) => one.members)
  }
  return {
    join(topic: Topic, options: ConsumeOptions): GroupConsumer {
      const subscription = subscriptionOf(options.group, topic)
      const member = createMember(subscription, options, parts)
      subscription.members.push(member)
      subscription.rebalance()
      return member.consumer
    },
    members,
    names: () => subscriptions.filter((one) => one.members.length > 0).map((one) => one.group),
    async closeAll(): Promise<void> {
      for (const { members } of subscriptions) {
        for (const member of [...members]) await member.consumer.close()
      }
    },
  }
}

function createSubscription(group: string, topic: Topic): Subscription {
  let wanted = false
  let sharing = false
  async function shareUntilEven(): Promise<void> {
    sharing = true
    while (wanted) {
      await nextTurn()
      wanted = false
      await share(subscription)
    }
    sharing = false
  }
  const subscription: Subscription = {
    group,
    topic,
    members: [],
    rebalance() {
      wanted = true
      if (!sharing) void shareUntilEven()
    },
  }
  topic.watchers.add(() => subscription.rebalance())
  return subscription
}

/** All losses come before any gain, so that no partition ever has two owners. */
async function share({ topic, members }: Subscription): Promise<void> {
  if (members.length === 0) return
  const present = members.map((member, m) => ({ member, memberId: String(m) }))
  const claims = present.map(({ member, memberId }) => ({
    memberId,
    generation: 0,
    partitions: member.consumer.assignment(),
  }))
  const next = assignSticky(claims, [...topic.partitions.keys()])
  await Promise.all(
    present.map(async ({ member, memberId }) => {
      const share = next.get(memberId)!
      const lost = member.consumer.assignment().filter((partition) => !share.includes(partition))
      if (lost.length > 0) await member.handOver(lost)
    }),
  )
  for (const { member, memberId } of present) {
    const owned = member.consumer.assignment()
    const gained = next.get(memberId)!.filter((partition) => !owned.includes(partition))
    if (gained.length > 0) member.gain(gained)
  }
}

function createMember(subscription: Subscription, options: ConsumeOptions, parts: GroupsParts): Member {
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
    readers.get(partition)?.stop()
    readers.delete(partition)
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
      checkPosition(offset, metadata)
      if (closed || !readers.has(partition)) return 'lost'
      const stored = store([{ group, topic: topic.spec.name, partition, offset, metadata }], parts)
      const late = () => new Error('the commit takes too long')
      return withTimeout(stored, commitTimeoutMs, late).then(
        (): CommitResult => 'committed',
        () => 'again',
      )
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
      await endWork(listener, partitions).catch(parts.fault)
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

function checkPosition(offset: number, metadata: string): void {
  if (!Number.isSafeInteger(offset) || offset < 0) {
    throw new AppError('bad_request', 'A position is a whole number, 0 or more.')
  }
  if (Buffer.byteLength(metadata) > metadataBytesMax) {
    throw new AppError('payload_too_large', `Commit metadata is at most ${metadataBytesMax} bytes of UTF-8.`)
  }
}

/** Resolves when they are durable. */
async function store(
  rows: PositionRow[],
  { queue, positions }: Pick<GroupsParts, 'queue' | 'positions'>,
): Promise<void> {
  await queue.commit(rows)
  positions.keep(rows)
}

/** What operators do with groups. */
export function createGroupCalls(
  clientId: string,
  groups: Groups,
  topics: Topics,
  parts: Pick<GroupsParts, 'queue' | 'positions'>,
  { call }: WorkerClient<WriterHandlers>,
) {
  const { positions } = parts
  function refuseActive(group: string): void {
    if (groups.members(group).length > 0) throw groupActive(group)
  }
  return {
    listGroups: async () => [...new Set([...positions.groups(), ...groups.names()])].toSorted(),
    async groupState(group, topic) {
      const members = groups.members(group, topic)
      const owned = members.flatMap(({ consumer }) => consumer.assignment()).toSorted((a, b) => a - b)
      return {
        members: members.length,
        clientIds: members.length > 0 ? [clientId] : [],
        owners: owned.map((partition) => ({ partition, clientId })),
        committed: positions.list(group, topic),
      }
    },
    async setPositions(group, topic, offsets) {
      refuseActive(group)
      const rows = offsets.map(({ partition, offset }) => {
        topics.partition(topic, partition)
        checkPosition(offset, '')
        return { group, topic, partition, offset, metadata: '' }
      })
      await bounded(store(rows, parts), callTimeoutMs)
    },
    async deleteGroup(group) {
      refuseActive(group)
      const deleted = call.deleteGroup(group).then(() => positions.forget({ group }))
      await bounded(deleted, callTimeoutMs)
    },
  } satisfies Partial<EventLog>
}
