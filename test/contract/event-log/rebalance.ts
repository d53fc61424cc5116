/** Two members: what moves, what stays undisturbed, who may commit. */

import { describe, expect, test } from 'vitest'
import type { CommitResult, EventLog, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { partitionOf } from '#lib/murmur2.ts'
import { eventually } from '#test/support/eventually.ts'
import { commit, join, type Member, numbered, range, record, type World } from './world.ts'

const partitions = 6

export function describeRebalance(world: World): void {
  describe('rebalance', () => {
    describeOrderThrough(world)
    describeOwnership(world)
  })
}

/** All deliveries to all members, in their order. */
type History = StoredRecord[]

/** Joins a member that commits all that it receives. */
async function joinCommitting(
  log: EventLog,
  options: { group: string; topic: string; history: History },
): Promise<Member> {
  let member: Member | undefined
  member = await join(log, {
    group: options.group,
    topic: options.topic,
    onRecords(partition, records) {
      options.history.push(...records)
      member?.consumer.commit(partition, records.at(-1)!.offset + 1, '').catch(() => {})
    },
  })
  return member
}

/** Appends `rounds` records to each of 60 keys, numbered per key from `from`. */
async function produce(log: EventLog, topic: string, from: number, rounds: number): Promise<void> {
  for (let n = from; n < from + rounds; n++) {
    const byPartition = Map.groupBy(range(0, 60), (key) => partitionOf(Buffer.from(`key${key}`), partitions))
    await Promise.all(
      [...byPartition].map(([partition, keys]) =>
        log.append(
          topic,
          partition,
          keys.map((key) => record(`key${key}`, String(n))),
          { timeoutMs: 20_000 },
        ),
      ),
    )
  }
}

/** For each of the 60 keys the numbers in the order of their first delivery. */
function firstSeen(history: History): number[][] {
  const seen = new Map<string, Set<number>>(range(0, 60).map((key) => [`key${key}`, new Set()]))
  for (const one of history) seen.get(one.key!.toString())!.add(Number(one.value!.toString()))
  return [...seen.values()].map((numbers) => [...numbers])
}

function seenAll(history: History, count: number): Promise<boolean> {
  return eventually(
    'all is seen',
    () => firstSeen(history).every((numbers) => numbers.length === count),
    40_000,
  )
}

const halves = (members: Member[]) =>
  eventually('each owns half', () =>
    members.every((member) => member.consumer.assignment().length === partitions / 2),
  )

function describeOrderThrough(world: World): void {
  test('each key keeps its order while a second member joins; kept partitions repeat nothing', async () => {
    const log = await world.client()
    const options = { group: world.name('group'), topic: await world.topic(log, { partitions }), history: [] }
    const first = await joinCommitting(log, options)
    await produce(log, options.topic, 0, 15)
    await eventually('the first reads', () => first.records.length > 0)
    const second = await joinCommitting(await world.client(), options)
    const writing = produce(log, options.topic, 15, 15)
    await halves([first, second])
    await writing
    await produce(log, options.topic, 30, 10)
    await seenAll(options.history, 40)
    for (const numbers of firstSeen(options.history)) expect(numbers).toEqual(range(0, 40))
    for (const partition of first.consumer.assignment()) {
      expect(first.offsets(partition)).toEqual(range(0, first.offsets(partition).length))
      expect(first.gained.filter((one) => one.partition === partition)).toHaveLength(1)
    }
    for (const one of second.gained) {
      const offsets = second.offsets(one.partition)
      expect(offsets).toEqual(range(one.committed?.offset ?? 0, offsets.at(-1)! + 1))
    }
    expect(first.lost.toSorted()).toEqual(second.consumer.assignment().toSorted())
  })

  test('when a member leaves, the other takes over what it had and goes on from its commits', async () => {
    const log = await world.client()
    const options = { group: world.name('group'), topic: await world.topic(log, { partitions }), history: [] }
    const first = await joinCommitting(log, options)
    const second = await joinCommitting(await world.client(), options)
    await halves([first, second])
    const kept = first.consumer.assignment()
    await produce(log, options.topic, 0, 10)
    await seenAll(options.history, 10)
    await second.consumer.close()
    await eventually('the first owns all', () => first.consumer.assignment().length === partitions)
    await produce(log, options.topic, 10, 10)
    await seenAll(options.history, 20)
    for (const numbers of firstSeen(options.history)) expect(numbers).toEqual(range(0, 20))
    for (const partition of kept) {
      expect(first.offsets(partition)).toEqual(range(0, first.offsets(partition).length))
    }
    expect((await log.groupState(options.group, options.topic)).members).toBe(1)
  })

  test('members that come and go under load: every record is seen, each key in order', async () => {
    const log = await world.client()
    const options = { group: world.name('group'), topic: await world.topic(log, { partitions }), history: [] }
    let stays = await joinCommitting(log, options)
    const writing = produce(log, options.topic, 0, 60)
    for (const _ of range(0, 4)) {
      const joins = await joinCommitting(log, options)
      await eventually('it owns its half', () => joins.consumer.assignment().length === partitions / 2)
      await stays.consumer.close()
      stays = joins
    }
    await writing
    await seenAll(options.history, 60)
    for (const numbers of firstSeen(options.history)) expect(numbers).toEqual(range(0, 60))
  }, 120_000)
}

function describeOwnership(world: World): void {
  test('a late owner commits nothing', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    for (const partition of [0, 1]) await log.append(topic, partition, numbered(10))
    const group = world.name('group')
    const first = await join(log, { group, topic })
    await eventually('the first reads all', () => first.records.length === 20)
    for (const partition of [0, 1]) expect(await commit(first.consumer, partition, 3)).toBe('committed')
    const second = await join(await world.client(), { group, topic })
    await eventually('one partition moves', () => first.lost.length === 1 && second.gained.length === 1)
    const moved = first.lost[0]!
    expect(second.gained[0]).toMatchObject({ partition: moved })
    expect(second.gained[0]!.committed!.offset).toBe(3)
    expect(await commit(second.consumer, moved, 5, 'mine')).toBe('committed')
    expect(await first.consumer.commit(moved, 10, 'late')).toBe('lost')
    const { committed } = await log.groupState(group, topic)
    expect(committed.find((one) => one.partition === moved)).toEqual({
      partition: moved,
      offset: 5,
      metadata: 'mine',
    })
    expect(await commit(first.consumer, 1 - moved, 10)).toBe('committed')
  })

  test('a partition is revoked before it moves; the next owner finds the commits of that moment', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    for (const partition of [0, 1]) await log.append(topic, partition, numbered(10))
    const group = world.name('group')
    const asked: { partitions: number[]; lost: number; results: CommitResult[] }[] = []
    const first = await join(log, {
      group,
      topic,
      async onRevoked(partitions, consumer) {
        // Long enough for a next owner that does not wait.
        await sleep(300)
        const commits = partitions.map((partition) => commit(consumer, partition, 7, 'finished'))
        asked.push({ partitions, lost: first.lost.length, results: await Promise.all(commits) })
      },
    })
    await eventually('the first reads all', () => first.records.length === 20)
    const second = await join(await world.client(), { group, topic })
    await eventually('one partition moves', () => second.gained.length === 1)
    const moved = second.gained[0]!.partition
    expect(asked).toEqual([{ partitions: [moved], lost: 0, results: ['committed'] }])
    expect(first.lost).toEqual([moved])
    expect(second.gained[0]!.committed).toMatchObject({ offset: 7, metadata: 'finished' })
  })

  test('a member that does not let go of a partition holds up neither its next owner nor the others for long', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    const group = world.name('group')
    const never = new Promise<never>(() => {})
    const first = await join(log, { group, topic, onRevoked: () => never })
    await eventually('the first owns both', () => first.gained.length === 2)
    const second = await join(await world.client(), { group, topic })
    await eventually('one partition moves', () => second.gained.length === 1)
    expect(first.lost).toEqual([second.gained[0]!.partition])
  })

  test('nothing of a partition reaches a member after it lost it', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    const group = world.name('group')
    const first = await join(log, { group, topic })
    await eventually('the first owns both', () => first.consumer.assignment().length === 2)
    const second = await join(await world.client(), { group, topic })
    await eventually('one partition moves', () => first.lost.length === 1 && second.gained.length === 1)
    const moved = first.lost[0]!
    await log.append(topic, moved, numbered(5))
    await eventually('the second reads it', () => second.offsets(moved).length === 5)
    expect(first.offsets(moved)).toEqual([])
  })

  test('a commit that was answered as committed is what the next owner finds', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(10))
    const group = world.name('group')
    const first = await join(log, { group, topic })
    await eventually('the first reads all', () => first.records.length === 10)
    const second = await join(await world.client(), { group, topic })
    await eventually('both are members', async () => (await log.groupState(group, topic)).members === 2)
    await eventually('the first still owns it', () => first.consumer.assignment().length === 1)
    const committing = first.consumer.commit(0, 6, '')
    await first.consumer.close()
    await eventually('the second gains it', () => second.gained.length === 1)
    const found = second.gained[0]!.committed?.offset ?? 0
    if ((await committing) === 'committed') expect(found).toBe(6)
    await eventually('it reads the rest', () => second.records.length === 10 - found)
    expect(second.offsets(0)).toEqual(range(found, 10))
  })

  test('when one of three leaves, the others keep what they have', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions })
    const group = world.name('group')
    const members: Member[] = []
    for (const count of [1, 2, 3]) {
      members.push(await join(log, { group, topic }))
      await eventually('each has its share', () =>
        members.every((member) => member.consumer.assignment().length === partitions / count),
      )
    }
    const [first, ...others] = members
    const before = others.map((member) => ({ had: member.consumer.assignment(), lost: member.lost.length }))
    await first!.consumer.close()
    await eventually('the two have all', () =>
      others.every((member) => member.consumer.assignment().length === partitions / 2),
    )
    for (const [i, member] of others.entries()) {
      expect(member.consumer.assignment()).toEqual(expect.arrayContaining(before[i]!.had))
      expect(member.lost).toHaveLength(before[i]!.lost)
    }
  })

  test('a member too many owns nothing, and takes over when another leaves', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    const group = world.name('group')
    const first = await join(log, { group, topic })
    await eventually('the first owns it', () => first.consumer.assignment().length === 1)
    const second = await join(await world.client(), { group, topic })
    await eventually('both are members', async () => (await log.groupState(group, topic)).members === 2)
    expect(first.lost).toEqual([])
    await first.consumer.close()
    await log.append(topic, 0, numbered(2))
    await eventually('the second reads', () => second.records.length === 2)
  })
}
