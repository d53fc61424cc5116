/** Positions: missing, expired, beyond the end, set by an operator, deleted with their group. */

import { describe, expect, test } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { commit, join, numbered, range, type World } from './world.ts'

export function describePositions(world: World): void {
  describe('positions', () => {
    describeMisplaced(world)
    describeOperators(world)
  })
}

function describeMisplaced(world: World): void {
  test('a partition that is given no start stays silent until seek', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    for (const partition of [0, 1]) await log.append(topic, partition, numbered(3))
    const member = await join(log, {
      group: world.name('group'),
      topic,
      start: (gained) => (gained.partition === 0 ? null : gained.start),
    })
    await eventually('the other is read', () => member.offsets(1).length === 3)
    await log.append(topic, 1, numbered(1, 3))
    await eventually('the other goes on', () => member.offsets(1).length === 4)
    expect(member.offsets(0)).toEqual([])
    member.consumer.seek(0, 1)
    await eventually('it is read', () => member.offsets(0).length === 2)
    expect(member.offsets(0)).toEqual([1, 2])
  })

  test('a position that has expired stops the partition with an alarm, until seek', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    for (const partition of [0, 1]) await log.append(topic, partition, numbered(10))
    const group = world.name('group')
    await log.setPositions(group, topic, [
      { partition: 0, offset: 2 },
      { partition: 1, offset: 2 },
    ])
    await log.deleteRecords(topic, 0, 5)
    const member = await join(log, { group, topic })
    await eventually('the alarm', () => member.misplaced.length > 0)
    await eventually('the other partition goes on', () => member.offsets(1).length === 8)
    expect(member.misplaced).toEqual([{ partition: 0, position: 2, start: 5, end: 10 }])
    expect(member.gained.find((one) => one.partition === 0)).toMatchObject({
      start: 5,
      end: 10,
      committed: { offset: 2 },
    })
    expect(member.offsets(0)).toEqual([])
    const { committed } = await log.groupState(group, topic)
    expect(committed.find((one) => one.partition === 0)!.offset).toBe(2)
    member.consumer.seek(0, 5)
    await eventually('it goes on', () => member.offsets(0).length === 5)
    expect(member.offsets(0)).toEqual(range(5, 10))
  })

  test('a position beyond the end stops the partition with an alarm, until seek', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(10))
    const group = world.name('group')
    await log.setPositions(group, topic, [{ partition: 0, offset: 50 }])
    const member = await join(log, { group, topic })
    await eventually('the alarm', () => member.misplaced.length > 0)
    expect(member.misplaced[0]).toEqual({ partition: 0, position: 50, start: 0, end: 10 })
    await log.append(topic, 0, numbered(1, 10))
    member.consumer.seek(0, 8)
    await eventually('it goes on', () => member.records.length === 3)
    expect(member.offsets(0)).toEqual([8, 9, 10])
  })

  test('the end is a good position: the next record is the first to arrive', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(4))
    const member = await join(log, { group: world.name('group'), topic, start: (gained) => gained.end })
    await eventually('it owns the partition', () => member.gained.length === 1)
    await log.append(topic, 0, numbered(2, 4))
    await eventually('the new ones arrive', () => member.records.length === 2)
    expect(member.offsets(0)).toEqual([4, 5])
    expect(member.misplaced).toEqual([])
  })
}

function describeOperators(world: World): void {
  test('positions of a group without members can be set, and the next member starts there', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(6))
    const group = world.name('group')
    await log.setPositions(group, topic, [{ partition: 0, offset: 4 }])
    const state = await log.groupState(group, topic)
    expect(state.members).toBe(0)
    expect(state.committed).toMatchObject([{ partition: 0, offset: 4 }])
    const member = await join(log, { group, topic })
    await eventually('it reads from there', () => member.records.length === 2)
    expect(member.offsets(0)).toEqual([4, 5])
  })

  test('positions of a group with members cannot be set', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(6))
    const group = world.name('group')
    const member = await join(log, { group, topic })
    await eventually('it reads', () => member.records.length === 6)
    await commit(member.consumer, 0, 6)
    const setting = () => log.setPositions(group, topic, [{ partition: 0, offset: 0 }])
    await expect(setting()).rejects.toMatchObject({ code: 'group_active' })
    expect((await log.groupState(group, topic)).committed[0]!.offset).toBe(6)
    await member.consumer.close()
    await eventually('it can be set once the group is empty', () => setting().then(() => true))
    expect((await log.groupState(group, topic)).committed[0]!.offset).toBe(0)
  })

  test('a group is listed while it has a position, and not listed once it is deleted', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(2))
    const group = world.name('group')
    expect(await log.groupState(group, topic)).toEqual({
      members: 0,
      clientIds: [],
      owners: [],
      committed: [],
    })
    await log.setPositions(group, topic, [{ partition: 0, offset: 1 }])
    await eventually('it is listed', async () => (await log.listGroups()).includes(group))
    await log.deleteGroup(group)
    await eventually('it is gone', async () => !(await log.listGroups()).includes(group))
    expect((await log.groupState(group, topic)).committed).toEqual([])
  })

  test('a group with a member is listed', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    const group = world.name('group')
    await join(log, { group, topic })
    await eventually('it is listed', async () => (await log.listGroups()).includes(group))
  })
}
