/**
 * An event log in memory in which a test decides about rebalances, heartbeats and commits. It compacts only when
 * asked to.
 */

import type {
  CommitResult,
  CommittedPosition,
  ConsumeOptions,
  EventLog,
  GainedPartition,
  GroupConsumer,
  NewRecord,
  StoredRecord,
  Tail,
  TailOptions,
  TopicSpec,
} from '#engines/event-log/port.ts'
import { createTaking } from '#engines/event-log/taking.ts'
import { AppError } from '#lib/errors.ts'

/** One member of a group; the test gives and takes its partitions. */
export interface MemoryMember extends GroupConsumer {
  /** Hands partitions over; resolves when `assigned` has answered and reading has begun. */
  gain(partitions: number[]): Promise<void>
  /** Asks it to finish its work on these, then takes them. */
  handOver(partitions: number[]): Promise<void>
  lose(partitions: number[]): void
  /** The answer of `alive()`. */
  connected: boolean
  /** Answers the next commits instead of the log; empty: the log does. */
  answers: CommitResult[]
  paused: Set<number>
  clientId: string
  /** Ends its process: it loses all and is gone. */
  die(): void
  /** Records delivered, repeats included. */
  delivered: number
}

export interface MemoryLog extends EventLog {
  /** In the order of `consume`. */
  members: MemoryMember[]
  /** The process that consumes next; its members are known by it until they are lost with it. */
  clientId: string
  /** While true appends and commits fail with `log_unavailable`. */
  away: boolean
  /** Every commit that was written, in order. */
  commits: { group: string; partition: number; offset: number; metadata: string }[]
  /** Removes single records, as compaction does. */
  remove(topic: string, partition: number, offsets: number[]): void
  records(topic: string): StoredRecord[]
}

interface Partition {
  start: number
  records: StoredRecord[]
  end: number
}

interface Reader {
  position: number
  scheduled: boolean
}

/** Members get at most this many records at once. */
export function createMemoryLog({ chunkRecordsMax = 500 } = {}): MemoryLog {
  const topics = new Map<string, { spec: TopicSpec; partitions: Partition[] }>()
  const positions = new Map<string, CommittedPosition>()
  const holders = new Map<string, symbol>()
  const pumps = new Set<() => void>()
  const dead = new Set<MemoryMember>()
  const log: MemoryLog = {
    driver: 'embedded',
    clientId: 'process',
    members: [],
    away: false,
    commits: [],
    remove(topic, partition, offsets) {
      const state = partitionOf(topic, partition)
      state.records = state.records.filter((record) => !offsets.includes(record.offset))
    },
    records: (topic) => topics.get(topic)!.partitions.flatMap((partition) => partition.records),
    async createTopic(spec) {
      if (topics.has(spec.name)) return false
      const partitions = Array.from({ length: spec.partitions }, () => ({ start: 0, records: [], end: 0 }))
      topics.set(spec.name, { spec, partitions })
      return true
    },
    describeTopic: async (name) => topics.get(name)?.spec ?? null,
    listTopics: async () => [...topics.keys()],
    async deleteTopic(name) {
      topics.delete(name)
    },
    async addPartitions(name, total) {
      const { partitions } = topics.get(name)!
      while (partitions.length < total) partitions.push({ start: 0, records: [], end: 0 })
    },
    offsets: async (topic) =>
      topics.get(topic)!.partitions.map(({ start, end }, partition) => ({ partition, start, end })),
    async deleteRecords(topic, partition, before) {
      const state = partitionOf(topic, partition)
      state.start = before
      state.records = state.records.filter((record) => record.offset >= before)
    },
    append: async (topic, partition, records) => append(topic, partition, records),
    async fencedWriter(name) {
      if (log.away) throw new AppError('log_unavailable', 'The log is away.')
      const holder = Symbol(name)
      holders.set(name, holder)
      return {
        async append(topic, partition, records) {
          if (holders.get(name) !== holder) throw new AppError('fenced', 'The name was taken over.')
          return append(topic, partition, records)
        },
        async close() {},
      }
    },
    consume: async (options) => {
      const member = createMember(options)
      log.members.push(member)
      return member
    },
    tail: async (options) => createTail(options),
    listGroups: async () => [...new Set([...positions.keys()].map((key) => key.split('|')[0]!))],
    partitionFacts: async (topic) =>
      (topics.get(topic)?.partitions ?? []).map((_, partition) => ({
        partition,
        leader: null,
        replicas: 1,
        inSync: 1,
        bytes: null,
      })),
    groupState: async (group, topic) => ({
      members: log.members.length,
      clientIds: log.members.filter((member) => !dead.has(member)).map((member) => member.clientId),
      owners: [],
      committed: [...positions].filter(([key]) => key.startsWith(`${group}|${topic}|`)).map(([, one]) => one),
    }),
    groupPositions: (groups) =>
      Promise.all(
        groups.map(async ({ group, topic }) => ({
          group,
          topic,
          committed: (await log.groupState(group, topic)).committed,
          ranges: await log.offsets(topic),
        })),
      ),
    async setPositions(group, topic, wanted) {
      for (const { partition, offset } of wanted) {
        positions.set(`${group}|${topic}|${partition}`, { partition, offset, metadata: '' })
      }
    },
    async deleteGroup(group) {
      for (const key of [...positions.keys()]) if (key.startsWith(`${group}|`)) positions.delete(key)
    },
    async ping() {},
    async close() {},
  }
  return log

  function partitionOf(topic: string, partition: number): Partition {
    return topics.get(topic)!.partitions[partition]!
  }

  function append(topic: string, partition: number, records: NewRecord[]): number {
    if (log.away) throw new AppError('log_unavailable', 'The log is away.')
    const state = partitionOf(topic, partition)
    const first = state.end
    for (const { key, value: given, headers = {} } of records) {
      // A copy: the caller may use the bytes for something else.
      const value = given && Buffer.from(given)
      state.records.push({ partition, offset: state.end++, timestamp: Date.now(), key, value, headers })
    }
    for (const run of pumps) run()
    return first
  }

  function createMember({ group, topic, listener }: ConsumeOptions): MemoryMember {
    const readers = new Map<number, Reader>()
    const pumpAll = () => {
      for (const id of readers.keys()) pump(id)
    }
    pumps.add(pumpAll)
    function pump(id: number): void {
      const reader = readers.get(id)
      if (!reader || reader.scheduled || member.paused.has(id)) return
      reader.scheduled = true
      setImmediate(() => {
        reader.scheduled = false
        if (readers.get(id) !== reader) return
        const state = partitionOf(topic, id)
        const chunk = state.records
          .filter((record) => record.offset >= reader.position)
          .slice(0, chunkRecordsMax)
        if (chunk.length === 0) return
        reader.position = chunk.at(-1)!.offset + 1
        member.delivered += chunk.length
        listener.records(id, chunk)
        pump(id)
      })
    }
    const owned = new Set<number>()
    const member: MemoryMember = {
      connected: true,
      clientId: log.clientId,
      answers: [],
      paused: new Set(),
      delivered: 0,
      async gain(partitions) {
        for (const id of partitions) owned.add(id)
        const gained = partitions.map((id): GainedPartition => {
          const { start, end } = partitionOf(topic, id)
          const committed = positions.get(`${group}|${topic}|${id}`) ?? null
          return { partition: id, start, end, committed }
        })
        const starts = await listener.assigned(gained)
        for (const [id, offset] of starts) if (owned.has(id)) member.seek(id, offset)
      },
      async handOver(partitions) {
        await listener.revoked?.(partitions)
        member.lose(partitions)
      },
      lose(partitions) {
        for (const id of partitions) {
          owned.delete(id)
          readers.delete(id)
          // As with every driver: a partition that comes back is not paused.
          member.paused.delete(id)
        }
        listener.lost(partitions)
      },
      die() {
        dead.add(member)
        member.lose([...owned])
      },
      assignment: () => [...owned],
      async commit(partition, offset, metadata) {
        if (Buffer.byteLength(metadata) > 4_096) throw new Error('metadata too large')
        await new Promise((resolve) => setImmediate(resolve))
        if (!owned.has(partition)) return 'lost'
        if (log.away) return 'again'
        const answer = member.answers.shift() ?? 'committed'
        if (answer !== 'committed') return answer
        positions.set(`${group}|${topic}|${partition}`, { partition, offset, metadata })
        log.commits.push({ group, partition, offset, metadata })
        return 'committed'
      },
      pause: (id) => void member.paused.add(id),
      resume(id) {
        member.paused.delete(id)
        pump(id)
      },
      seek(id, offset) {
        readers.set(id, { position: offset, scheduled: false })
        pump(id)
      },
      alive: () => member.connected,
      async close() {
        dead.add(member)
        owned.clear()
        readers.clear()
        pumps.delete(pumpAll)
      },
    }
    return member
  }

  function createTail({ topic, partitions: wanted, from, records, misplaced }: TailOptions): Tail {
    const { partitions } = topics.get(topic)!
    const startOf = (state: { start: number; end: number }, partition: number) => {
      if (typeof from === 'function') return from({ partition, start: state.start, end: state.end })
      return from === 'end' ? state.end : state.start
    }
    const next = partitions.map((state, partition) => {
      if (wanted && !wanted.includes(partition)) return Number.POSITIVE_INFINITY
      const { start, end } = state
      const position = startOf(state, partition)
      if (position >= start) return position
      misplaced?.(partition, { position, start, end })
      return start
    })
    const ends = partitions.map(({ end }) => end)
    const held = new Set<number>()
    const ready = Promise.withResolvers<void>()
    const taking = createTaking(
      {
        pause: (partition) => void held.add(partition),
        resume(partition) {
          held.delete(partition)
          pump()
        },
      },
      records,
      look,
    )
    const positions = () => taking.taken(new Map(next.entries()))
    function pump(): void {
      for (const [id, state] of partitions.entries()) {
        if (held.has(id)) continue
        const chunk = state.records.filter((record) => record.offset >= next[id]!)
        next[id] = Math.max(next[id]!, state.end)
        if (chunk.length > 0) taking.give(id, chunk)
      }
      look()
    }
    function look(): void {
      if (ends.every((end, id) => positions().get(id)! >= end)) ready.resolve()
    }
    const first = setImmediate(() => {
      pump()
      pumps.add(pump)
    })
    return {
      ready: ready.promise,
      current: () => true,
      caughtUp: async () => true,
      positions,
      async close() {
        clearImmediate(first)
        pumps.delete(pump)
      },
    }
  }
}
