/** One member of a group: reading, committing, pausing, seeking, coming back. */

import { describe, expect, test } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { commit, join, numbered, range, values, type World } from './world.ts'

export function describeGroups(world: World): void {
  describe('groups', () => {
    describeReading(world)
    describeCommits(world)
    describePositions(world)
    describeFlow(world)
  })
}

function describeReading(world: World): void {
  test('a member of a new group gains every partition, without a committed position', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 3 })
    await log.append(topic, 2, numbered(4))
    const member = await join(log, { group: world.name('group'), topic })
    await eventually('the partition with records is read', () => member.offsets(2).length === 4)
    const gained = member.gained.toSorted((a, b) => a.partition - b.partition)
    expect(gained).toEqual([
      { partition: 0, start: 0, end: 0, committed: null },
      { partition: 1, start: 0, end: 0, committed: null },
      { partition: 2, start: 0, end: 4, committed: null },
    ])
    expect(member.consumer.assignment().toSorted()).toEqual([0, 1, 2])
    expect(member.consumer.alive()).toBe(true)
  })

  test('the state of a group names the owner of each partition, and nobody when its members are gone', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 3 })
    const group = world.name('group')
    const member = await join(log, { group, topic })
    await eventually('it owns all', () => member.consumer.assignment().length === 3)
    const owners = await eventually('the owners are known', async () => {
      const { owners } = await log.groupState(group, topic)
      return owners.length === 3 ? owners : null
    })
    expect(owners.toSorted((a, b) => a.partition - b.partition)).toEqual(
      range(0, 3).map((partition) => ({ partition, clientId: log.clientId })),
    )
    await member.consumer.close()
    await eventually('nobody owns any', async () => (await log.groupState(group, topic)).owners.length === 0)
  })

  test('records that are appended while it reads arrive in order, once', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    const member = await join(log, { group: world.name('group'), topic })
    for (let i = 0; i < 300; i += 3) await log.append(topic, 0, numbered(3, i))
    await eventually('all records', () => member.records.length >= 300)
    expect(values(member.records)).toEqual(range(0, 300).map(String))
  })

  test('two groups read the same records, each with its own position', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(5))
    const [one, two] = [world.name('group'), world.name('group')]
    const first = await join(log, { group: one, topic })
    const second = await join(log, { group: two, topic })
    await eventually('both read all', () => first.records.length === 5 && second.records.length === 5)
    await commit(first.consumer, 0, 5)
    expect((await log.groupState(two, topic)).committed).toEqual([])
    expect((await log.groupState(one, topic)).committed[0]!.offset).toBe(5)
  })

  test('many records over several partitions keep their order per partition', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 4 })
    const count = 2_500
    for (const partition of range(0, 4)) {
      await log.append(topic, partition, numbered(count), { timeoutMs: 20_000 })
    }
    const member = await join(log, { group: world.name('group'), topic, fetchBytesMax: 16_384 })
    await eventually('all records', () => member.records.length >= 4 * count)
    for (const partition of range(0, 4)) expect(member.offsets(partition)).toEqual(range(0, count))
  })
}

function describeCommits(world: World): void {
  test('records that a member did not commit go to the next one', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(10))
    const group = world.name('group')
    const first = await join(log, { group, topic })
    await eventually('all are read', () => first.records.length === 10)
    expect(await commit(first.consumer, 0, 4, 'four')).toBe('committed')
    await first.consumer.close()
    const second = await join(await world.client(), { group, topic })
    await eventually('the rest is read again', () => second.records.length === 6)
    expect(second.offsets(0)).toEqual(range(4, 10))
    expect(second.gained[0]!.committed).toEqual({ partition: 0, offset: 4, metadata: 'four' })
  })

  test('positions and their metadata outlive every client', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    await log.append(topic, 1, numbered(3))
    const group = world.name('group')
    const member = await join(log, { group, topic })
    await eventually('all are read', () => member.records.length === 3)
    const metadata = 'ü'.repeat(2_048)
    expect(await commit(member.consumer, 1, 2, metadata)).toBe('committed')
    await member.consumer.close()
    await log.close()
    const again = await world.clientAfterRestart()
    const state = await again.groupState(group, topic)
    expect(state).toEqual({
      members: 0,
      clientIds: [],
      owners: [],
      committed: [{ partition: 1, offset: 2, metadata }],
    })
  })

  test('metadata over 4,096 bytes is refused, and the position stays', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    const group = world.name('group')
    const member = await join(log, { group, topic })
    await eventually('it owns the partition', () => member.gained.length === 1)
    expect(await commit(member.consumer, 0, 0, 'kept')).toBe('committed')
    await expect(member.consumer.commit(0, 0, `${'ü'.repeat(2_048)}x`)).rejects.toThrow()
    expect((await log.groupState(group, topic)).committed).toEqual([
      { partition: 0, offset: 0, metadata: 'kept' },
    ])
    expect(await commit(member.consumer, 0, 0, '')).toBe('committed')
  })

  test('a commit for a partition that it does not own, or after it left, answers lost', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(3))
    const group = world.name('group')
    const member = await join(log, { group, topic })
    await eventually('it reads', () => member.records.length === 3)
    expect(await commit(member.consumer, 7, 1)).toBe('lost')
    expect(await commit(member.consumer, 0, 1)).toBe('committed')
    await member.consumer.close()
    await member.consumer.close()
    expect(await member.consumer.commit(0, 3, '')).toBe('lost')
    expect(member.consumer.alive()).toBe(false)
    expect((await log.groupState(group, topic)).committed[0]!.offset).toBe(1)
  })

  test('lag is the distance from the committed positions to the ends', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    await log.append(topic, 0, numbered(10))
    await log.append(topic, 1, numbered(4))
    const group = world.name('group')
    const member = await join(log, { group, topic })
    await eventually('all are read', () => member.records.length === 14)
    await commit(member.consumer, 0, 7)
    await commit(member.consumer, 1, 4)
    const ends = new Map((await log.offsets(topic)).map((one) => [one.partition, one.end]))
    const { members, clientIds, committed } = await log.groupState(group, topic)
    expect(members).toBe(1)
    expect(clientIds).toEqual([log.clientId])
    expect(committed.reduce((lag, one) => lag + ends.get(one.partition)! - one.offset, 0)).toBe(3)
  })
}

function describePositions(world: World): void {
  test('positions of many groups come together, those of one that never committed are empty', async () => {
    const log = await world.client()
    const one = await world.topic(log, { partitions: 3 })
    const two = await world.topic(log)
    await log.append(one, 1, numbered(10))
    await log.append(two, 0, numbered(6))
    await log.deleteRecords(two, 0, 2)
    const [reader, other, nobody] = [world.name('group'), world.name('group'), world.name('group')]
    await log.setPositions(reader, one, [{ partition: 1, offset: 7 }])
    await log.setPositions(other, one, [{ partition: 2, offset: 0 }])
    await log.setPositions(reader, two, [{ partition: 0, offset: 6 }])
    const empty = (partition: number) => ({ partition, start: 0, end: 0 })
    const rangesOfOne = [empty(0), { partition: 1, start: 0, end: 10 }, empty(2)]
    const at = (partition: number, offset: number) => ({ partition, offset, metadata: '' })
    const found = await log.groupPositions([
      { group: reader, topic: two },
      { group: nobody, topic: one },
      { group: reader, topic: one },
      { group: other, topic: one },
    ])
    expect(found).toEqual([
      { group: reader, topic: two, committed: [at(0, 6)], ranges: [{ partition: 0, start: 2, end: 6 }] },
      { group: nobody, topic: one, committed: [], ranges: rangesOfOne },
      { group: reader, topic: one, committed: [at(1, 7)], ranges: rangesOfOne },
      { group: other, topic: one, committed: [at(2, 0)], ranges: rangesOfOne },
    ])
    expect(await log.groupPositions([])).toEqual([])
  })

  test('positions asked again are current where records came or the group had not read all', async () => {
    const log = await world.client()
    const [quiet, busy] = [await world.topic(log), await world.topic(log)]
    const [done, behind] = [world.name('group'), world.name('group')]
    for (const topic of [quiet, busy]) {
      await log.append(topic, 0, numbered(3))
      await log.setPositions(done, topic, [{ partition: 0, offset: 3 }])
    }
    await log.setPositions(behind, quiet, [{ partition: 0, offset: 1 }])
    const groups = [
      { group: behind, topic: quiet },
      { group: done, topic: busy },
      { group: done, topic: quiet },
    ]
    const first = await log.groupPositions(groups)
    expect(await log.groupPositions(groups, first)).toEqual(first)
    await log.append(busy, 0, numbered(2))
    await log.setPositions(behind, quiet, [{ partition: 0, offset: 2 }])
    const again = await log.groupPositions(groups, first)
    expect(again).toEqual(await log.groupPositions(groups))
    expect(again.map(({ committed }) => committed[0]!.offset)).toEqual([2, 3, 3])
    expect(again.map(({ ranges }) => ranges[0]!.end)).toEqual([3, 5, 3])
    // One that is asked for the first time is not in the earlier answer.
    const more = [...groups, { group: behind, topic: busy }]
    expect(await log.groupPositions(more, again)).toEqual(await log.groupPositions(more))
  })

  test('positions of a topic that does not exist are refused', async () => {
    const log = await world.client()
    const asked = [{ group: world.name('group'), topic: world.name('missing') }]
    await expect(log.groupPositions(asked)).rejects.toMatchObject({ code: 'not_found' })
  })
}

function describeFlow(world: World): void {
  test('a paused partition is silent while the others go on, and misses nothing when it resumes', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    const member = await join(log, { group: world.name('group'), topic })
    await log.append(topic, 0, numbered(1))
    await log.append(topic, 1, numbered(1))
    await eventually('both are read', () => member.records.length === 2)
    member.consumer.pause(0)
    // One fetch may be under way when the pause begins, and bring this.
    await log.append(topic, 0, numbered(1, 1))
    await new Promise((resolve) => setTimeout(resolve, 700))
    await log.append(topic, 0, numbered(5, 2))
    for (const i of range(1, 20)) await log.append(topic, 1, numbered(1, i))
    await eventually('the other goes on', () => member.offsets(1).length === 20)
    expect(member.offsets(0).length).toBeLessThanOrEqual(2)
    member.consumer.resume(0)
    await eventually('the rest arrives', () => member.offsets(0).length === 7)
    expect(member.offsets(0)).toEqual(range(0, 7))
  })

  test('a pause inside of a delivery bounds what arrives until the resume', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    for (const i of range(0, 20)) await log.append(topic, 0, numbered(100, i * 100), { timeoutMs: 20_000 })
    const pausing: { pause?: (partition: number) => void } = {}
    const member = await join(log, {
      group: world.name('group'),
      topic,
      fetchBytesMax: 4_096,
      start: () => null,
      onRecords: (partition) => pausing.pause?.(partition),
    })
    pausing.pause = (partition) => member.consumer.pause(partition)
    await eventually('it owns the partition', () => member.gained.length === 1)
    member.consumer.seek(0, 0)
    await eventually('something arrives', () => member.records.length > 0)
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(member.records.length).toBeLessThan(2_000)
    pausing.pause = () => {}
    member.consumer.resume(0)
    await eventually('all arrive', () => member.records.length === 2_000)
    expect(member.offsets(0)).toEqual(range(0, 2_000))
  })

  test('a busy partition whose records make the reader pause all keeps none of the others from being read', async () => {
    const log = await world.client()
    const all = range(0, 8)
    const topic = await world.topic(log, { partitions: all.length })
    const pausing: { all?: () => void } = {}
    const member = await join(log, {
      group: world.name('group'),
      topic,
      onRecords: () => pausing.all?.(),
    })
    await eventually('it owns them', () => member.gained.length === all.length)
    pausing.all = () => {
      for (const partition of all) member.consumer.pause(partition)
    }
    pausing.all()
    const letPass = () => new Promise((resolve) => setTimeout(resolve, 300))
    await letPass()
    for (const partition of all) await log.append(topic, partition, numbered(1))
    for (const round of range(1, 4)) {
      await log.append(topic, 0, numbered(1, round))
      const before = member.records.length
      for (const partition of all) member.consumer.resume(partition)
      await eventually('something arrives', () => member.records.length > before)
      await letPass()
    }
    expect(all.filter((partition) => member.offsets(partition).length === 0)).toEqual([])
  })

  test('after a seek nothing comes that was fetched for another position', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    for (let from = 0; from < 2_000; from += 100) await log.append(topic, 0, numbered(100, from))
    const faults: string[] = []
    let sought = 0
    let expected: number | null = 0
    const member = await join(log, {
      group: world.name('group'),
      topic,
      fetchBytesMax: 4_096,
      onRecords(_, records) {
        const first = records[0]!.offset
        if (expected !== null && first !== expected) faults.push(`${first} instead of ${expected}`)
        expected = records.at(-1)!.offset + 1
        if (sought >= 20 || first < 300) return
        // In the middle of a delivery and between two; back and forth again, as one that spares the way does.
        sought++
        const seek = (offset: number) => {
          expected = offset
          member.consumer.seek(0, offset)
        }
        if (sought % 2 === 0) seek(first - 250)
        else {
          setImmediate(() => {
            seek(first + 20)
            setImmediate(() => seek(first - 100))
          })
        }
      },
    })
    await eventually('all is read', () => sought === 20 && member.records.at(-1)?.offset === 1_999)
    expect(faults).toEqual([])
    expect(member.misplaced).toEqual([])
  })

  test('seek reads again from there', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(10))
    const member = await join(log, { group: world.name('group'), topic })
    await eventually('all are read', () => member.records.length === 10)
    member.consumer.seek(0, 3)
    await eventually('they are read again', () => member.records.length === 17)
    await log.append(topic, 0, numbered(1, 10))
    await eventually('it goes on', () => member.records.length === 18)
    expect(member.offsets(0)).toEqual([...range(0, 10), ...range(3, 11)])
  })
}
