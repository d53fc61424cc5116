/** Tails: every record of every partition, without a group's position. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { numbered, openTail, range, readAll, values, type World } from './world.ts'

export function describeTails(world: World): void {
  describe('tails', () => {
    test('from the beginning: present records when it is ready, then new ones', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 2 })
      await log.append(topic, 0, numbered(50))
      await log.append(topic, 1, numbered(30))
      const { tail, records } = await openTail(log, topic, 'beginning')
      await tail.ready
      expect(records).toHaveLength(80)
      await log.append(topic, 1, numbered(3, 30))
      await eventually('the new ones', () => records.length === 83)
      expect(values(records.filter((one) => one.partition === 0))).toEqual(range(0, 50).map(String))
      expect(values(records.filter((one) => one.partition === 1))).toEqual(range(0, 33).map(String))
      expect(tail.positions()).toEqual(
        new Map([
          [0, 50],
          [1, 33],
        ]),
      )
    })

    test('from the end: only records appended after it is ready', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 2 })
      await log.append(topic, 0, numbered(10))
      const { tail, records } = await openTail(log, topic, 'end')
      await tail.ready
      await log.append(topic, 0, numbered(2, 10))
      await log.append(topic, 1, numbered(1))
      await eventually('the new ones', () => records.length === 3)
      expect(records.map((one) => `${one.partition}/${one.offset}`).toSorted()).toEqual([
        '0/10',
        '0/11',
        '1/0',
      ])
    })

    test('an empty topic is ready at once and current', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 3 })
      const { tail, records } = await openTail(log, topic, 'beginning')
      await tail.ready
      await eventually('it is current', () => tail.current())
      expect(records).toEqual([])
    })

    test('it is current when it has read up to the end, and becomes so again after more came', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      await log.append(topic, 0, numbered(100))
      const { tail, records } = await openTail(log, topic, 'beginning')
      await tail.ready
      await eventually('it is current', () => tail.current())
      await log.append(topic, 0, numbered(10, 100))
      await eventually('it has read on and is current', () => records.length === 110 && tail.current())
    })

    test('asked whether it has caught up, it looks before it answers, also when nobody asked for long', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      await log.append(topic, 0, numbered(3))
      const { tail, records } = await openTail(log, topic, 'beginning')
      await tail.ready
      // The end that was read at the start is too old by now.
      await new Promise((resolve) => setTimeout(resolve, 1_100))
      expect(await tail.caughtUp()).toBe(true)
      await log.append(topic, 0, numbered(2, 3))
      await eventually('it has read on', async () => (await tail.caughtUp()) && records.length === 5)
      await tail.close()
      expect(await tail.caughtUp()).toBe(false)
    })

    test('a tail that was closed receives nothing more and is not current; closing again is fine', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      const { tail, records } = await openTail(log, topic, 'beginning')
      await tail.ready
      await tail.close()
      await tail.close()
      await log.append(topic, 0, numbered(3))
      expect(await readAll(log, topic)).toHaveLength(3)
      expect(records).toEqual([])
      expect(tail.current()).toBe(false)
    })

    test('where it begins may be said for each partition', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 2 })
      await log.append(topic, 0, numbered(10))
      await log.append(topic, 1, numbered(5))
      const { tail, records } = await openTail(log, topic, ({ partition, start, end }) =>
        partition === 0 ? end - 2 : start,
      )
      await tail.ready
      expect(values(records.filter((one) => one.partition === 0))).toEqual(['8', '9'])
      expect(values(records.filter((one) => one.partition === 1))).toEqual(range(0, 5).map(String))
    })

    test('chosen partitions are read alone, and it is current without the others', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 3 })
      for (const partition of range(0, 3)) await log.append(topic, partition, numbered(20))
      const seen: string[] = []
      const tail = await log.tail({
        topic,
        partitions: [0, 2],
        from: ({ partition }) => (partition === 0 ? 5 : 20),
        records(partition, records) {
          for (const { offset, hidden } of records) if (!hidden) seen.push(`${partition}/${offset}`)
        },
      })
      onTestFinished(() => tail.close())
      await tail.ready
      expect(seen).toEqual(range(5, 20).map((offset) => `0/${offset}`))
      await log.append(topic, 1, numbered(3))
      await log.append(topic, 2, numbered(2))
      await eventually('new records', () => seen.length === 17)
      expect(seen.slice(15)).toEqual(['2/20', '2/21'])
      expect(await tail.caughtUp()).toBe(true)
      expect([...tail.positions().keys()].toSorted()).toEqual([0, 2])
    })

    test('a partition waits while its records are taken, alone, and counts the records taken', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 2 })
      await log.append(topic, 0, numbered(3))
      const taken = Promise.withResolvers<void>()
      const seen: string[] = []
      const tail = await log.tail({
        topic,
        from: 'beginning',
        records(partition, records) {
          for (const { offset, hidden } of records) if (!hidden) seen.push(`${partition}/${offset}`)
          return partition === 0 ? taken.promise : undefined
        },
      })
      onTestFinished(() => tail.close())
      let isReady = false
      void tail.ready.then(() => {
        isReady = true
      })
      await eventually('the first came', () => seen.includes('0/0'))
      const first = seen.length
      await log.append(topic, 0, numbered(5, 3))
      await log.append(topic, 1, numbered(2))
      await eventually('the other partition goes on', () => seen.includes('1/1'))
      expect(seen.filter((one) => one.startsWith('0/'))).toHaveLength(first)
      expect([isReady, tail.current(), tail.positions().get(0)]).toEqual([false, false, 0])
      taken.resolve()
      await eventually('the rest came', () => seen.includes('0/7'))
      await tail.ready
      await eventually('all of it is taken', async () => (await tail.caughtUp()) && tail.current())
      expect(tail.positions()).toEqual(
        new Map([
          [0, 8],
          [1, 2],
        ]),
      )
      expect(seen.filter((one) => one.startsWith('0/'))).toEqual(range(0, 8).map((offset) => `0/${offset}`))
    })

    test('a position that the log does not hold is said, and it goes on at the first record there is', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      await log.append(topic, 0, numbered(6))
      await log.deleteRecords(topic, 0, 4)
      const problems: unknown[] = []
      const seen: number[] = []
      const tail = await log.tail({
        topic,
        from: () => 1,
        records: (_, records) => void seen.push(...records.map(({ offset }) => offset)),
        misplaced: (partition, problem) => void problems.push({ partition, ...problem }),
      })
      onTestFinished(() => tail.close())
      await eventually('it goes on', () => seen.length === 2)
      expect(problems).toEqual([{ partition: 0, position: 1, start: 4, end: 6 }])
      expect(seen).toEqual([4, 5])
    })

    test('several tails each get everything, and none shows as a group', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      const before = await log.listGroups()
      const tails = await Promise.all(range(0, 3).map(() => openTail(log, topic, 'beginning')))
      await Promise.all(tails.map(({ tail }) => tail.ready))
      await log.append(topic, 0, numbered(4))
      await eventually('every tail has read all', () => tails.every(({ records }) => records.length === 4))
      expect((await log.listGroups()).filter((group) => !before.includes(group))).toEqual([])
    })

    test('it starts behind deleted records', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      await log.append(topic, 0, numbered(10))
      await log.deleteRecords(topic, 0, 7)
      expect((await readAll(log, topic)).map((one) => one.offset)).toEqual([7, 8, 9])
    })
  })
}
