/** The common world of the suite's parts: clients, topics and groups of one test, members and tails that remember. */

import { onTestFinished } from 'vitest'
import type {
  CommitResult,
  EventLog,
  GainedPartition,
  GroupConsumer,
  NewRecord,
  StoredRecord,
  Tail,
  TailOptions,
  TopicSpec,
} from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { topicSpec } from '#test/support/topic-spec.ts'

export interface EventLogHarness {
  /** Opens a further client onto the same log; several may be open at once, and the suite closes each. */
  open(): Promise<EventLog>
  /**
   * Ends the engine where it runs in this process (all clients are closed by then), so that the next opens it again.
   */
  restart?(): Promise<void>
  /**
   * Makes compaction of the topic happen now, on all but the newest record of each partition (or waits until it did).
   * Without it the tests of compaction are skipped and say so.
   */
  forceCompaction?(topic: string): Promise<void>
  /** Ends what the harness itself started. */
  close?(): Promise<void>
}

export interface World {
  harness(): EventLogHarness
  /** A client that is closed when the test ends. */
  client(): Promise<EventLog>
  /** The same, after the engine was ended: it sees durable records only. The test has closed its clients. */
  clientAfterRestart(): Promise<EventLog>
  /** A name that no other test uses. */
  name(kind: string): string
  /** Creates a topic of the given kind (default: one partition, records kept for ever) and returns its name. */
  topic(log: EventLog, options?: Partial<TopicSpec>): Promise<string>
}

export function createWorld(prefix: string, harness: () => EventLogHarness): World {
  let names = 0
  const name = (kind: string) => `${prefix}.${kind}${++names}`
  async function client(): Promise<EventLog> {
    const log = await harness().open()
    onTestFinished(() => log.close())
    return log
  }
  return {
    harness,
    name,
    client,
    async clientAfterRestart() {
      await harness().restart?.()
      return client()
    },
    async topic(log, options = {}) {
      const spec = topicSpec(name('topic'), { recordBytesMax: 2_097_152, ...options })
      await log.createTopic(spec)
      return spec.name
    },
  }
}

export interface Member {
  consumer: GroupConsumer
  gained: GainedPartition[]
  lost: number[]
  misplaced: { partition: number; position: number; start: number; end: number }[]
  records: StoredRecord[]
  /** Offsets of one partition in the order of delivery. */
  offsets(partition: number): number[]
}

/** Joins a group; starts at the committed position, else at the first record, unless `start` says otherwise. */
export async function join(
  log: EventLog,
  options: {
    group: string
    topic: string
    fetchBytesMax?: number
    start?: (gained: GainedPartition) => number | null
    onRevoked?: (partitions: number[], consumer: GroupConsumer) => Promise<void>
    onRecords?: (partition: number, records: StoredRecord[]) => void
  },
): Promise<Member> {
  const {
    start = (gained) => gained.committed?.offset ?? gained.start,
    onRevoked,
    onRecords,
    ...rest
  } = options
  const member: Omit<Member, 'consumer'> = {
    gained: [],
    lost: [],
    misplaced: [],
    records: [],
    offsets: (partition) => member.records.filter((r) => r.partition === partition).map((r) => r.offset),
  }
  const consumer = await log.consume({
    ...rest,
    listener: {
      revoked: async (partitions) => onRevoked?.(partitions, consumer),
      async assigned(gained) {
        member.gained.push(...gained)
        const positions = new Map<number, number>()
        for (const one of gained) {
          const offset = start(one)
          if (offset !== null) positions.set(one.partition, offset)
        }
        return positions
      },
      lost: (partitions) => void member.lost.push(...partitions),
      records(partition, records) {
        member.records.push(...records.filter((one) => !one.hidden))
        onRecords?.(partition, records)
      },
      misplaced: (partition, problem) => void member.misplaced.push({ partition, ...problem }),
    },
  })
  onTestFinished(() => consumer.close())
  return Object.assign(member, { consumer })
}

/** Commits, again and again while the group asks for it. */
export async function commit(
  consumer: GroupConsumer,
  partition: number,
  offset: number,
  metadata = '',
): Promise<CommitResult> {
  return eventually('a commit that is not asked for again', async () => {
    const result = await consumer.commit(partition, offset, metadata)
    return result === 'again' ? null : result
  })
}

export async function openTail(
  log: EventLog,
  topic: string,
  from: TailOptions['from'],
): Promise<{ tail: Tail; records: StoredRecord[] }> {
  const records: StoredRecord[] = []
  const tail = await log.tail({
    topic,
    from,
    records: (_, arrived) => void records.push(...arrived.filter(({ hidden }) => !hidden)),
  })
  onTestFinished(() => tail.close())
  return { tail, records }
}

/** Everything that a topic holds now, by a tail that ends again. */
export async function readAll(log: EventLog, topic: string): Promise<StoredRecord[]> {
  const { tail, records } = await openTail(log, topic, 'beginning')
  await tail.ready
  await tail.close()
  return [...records]
}

export function record(
  key: string | null,
  value: string | null,
  headers?: Record<string, string>,
): NewRecord {
  const bytes = {
    key: key === null ? null : Buffer.from(key),
    value: value === null ? null : Buffer.from(value),
  }
  return headers ? { ...bytes, headers } : bytes
}

/** `count` records with the values `0`, `1` and so on. */
export function numbered(count: number, from = 0): NewRecord[] {
  return Array.from({ length: count }, (_, i) => record(`k${from + i}`, String(from + i)))
}

export const values = (records: StoredRecord[]): (string | null)[] =>
  records.map((one) => one.value?.toString() ?? null)

export const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, i) => from + i)
