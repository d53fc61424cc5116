/** Two members: what moves, what stays undisturbed, who may commit. */

import { describe, expect, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
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

/** Joins a member that commits all that it hears. */
async function joinCommitting(log: EventLog, group: string, topic: string): Promise<Member> {
  const member: Member = await join(log, {
    group,
    topic,
    heard(partition, records) {
      void member.consumer.commit(partition, records.at(-1)!.offset + 1, '').catch(() => {})
    },
    // Nothing is heard before `member` is set: partitions start by seek.
    start: () => null,
  })
  const started = new Set<Member['gained'][number]>()
  const starting = setInterval(() => {
    for (const one of member.gained) {
      if (started.has(one)) continue
      started.add(one)
      if (member.consumer.assignment().includes(one.partition)) {
        member.consumer.seek(one.partition, one.committed?.offset ?? one.start)
      }
    }
  }, 5)
  const close = member.consumer.close.bind(member.consumer)
  member.consumer.close = () => {
    clearInterval(starting)
    return close()
  }
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

/** For each key the numbers in the order of their first delivery. */
function firstSeen(members: Member[]): Map<string, number[]> {
  const seen = new Map<string, number[]>()
  const all = members.flatMap((member) => member.records).toSorted((a, b) => a.offset - b.offset)
  for (const one of all) {
    const numbers = seen.get(one.key!.toString()) ?? []
    const number = Number(one.value!.toString())
    if (!numbers.includes(number)) numbers.push(number)
    seen.set(one.key!.toString(), numbers)
  }
  return seen
}

function describeOrderThrough(world: World): void {
  test('each key keeps its order while a second member joins; kept partitions repeat nothing', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions })
    const group = world.name('group')
    const first = await joinCommitting(log, group, topic)
    await produce(log, topic, 0, 15)
    await eventually('the first reads', () => first.records.length > 0)
    const second = await joinCommitting(await world.client(), group, topic)
    const writing = produce(log, topic, 15, 15)
    await eventually('each owns half', () =>
      [first, second].every((member) => member.consumer.assignment().length === partitions / 2),
    )
    await writing
    await produce(log, topic, 30, 10)
    await eventually('all is seen', () =>
      [...firstSeen([first, second]).values()].every((numbers) => numbers.length === 40),
    )
    for (const numbers of firstSeen([first, second]).values()) expect(numbers).toEqual(range(0, 40))
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
    const topic = await world.topic(log, { partitions })
    const group = world.name('group')
    const first = await joinCommitting(log, group, topic)
    const second = await joinCommitting(await world.client(), group, topic)
    await eventually('each owns half', () =>
      [first, second].every((member) => member.consumer.assignment().length === partitions / 2),
    )
    const kept = first.consumer.assignment()
    await produce(log, topic, 0, 10)
    await eventually('all is seen', () =>
      [...firstSeen([first, second]).values()].every((numbers) => numbers.length === 10),
    )
    await second.consumer.close()
    await eventually('the first owns all', () => first.consumer.assignment().length === partitions)
    await produce(log, topic, 10, 10)
    await eventually('all is seen', () =>
      [...firstSeen([first, second]).values()].every((numbers) => numbers.length === 20),
    )
    for (const partition of kept) {
      expect(first.offsets(partition)).toEqual(range(0, first.offsets(partition).length))
    }
    expect((await log.groupState(group, topic)).members).toBe(1)
  })
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
    expect(second.gained[0]).toMatchObject({ partition: moved, former: 'unknown' })
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
