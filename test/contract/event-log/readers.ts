/** Readers: chosen partitions from chosen offsets on, outside of all groups. */

import { describe, expect, onTestFinished, test } from 'vitest'
import type { EventLog, LogReader, StoredRecord } from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { numbered, range, type World } from './world.ts'

interface Read {
  reader: LogReader
  records: StoredRecord[]
  misplaced: { partition: number; position: number; start: number; end: number }[]
  offsets(partition: number): number[]
}

async function read(log: EventLog, topic: string, from: [number, number][]): Promise<Read> {
  const records: StoredRecord[] = []
  const misplaced: Read['misplaced'] = []
  const reader = await log.read({
    topic,
    from: new Map(from),
    listener: {
      records: (_, arrived) => void records.push(...arrived.filter((one) => !one.hidden)),
      misplaced: (partition, problem) => void misplaced.push({ partition, ...problem }),
    },
  })
  onTestFinished(() => reader.close())
  const offsets = (partition: number) =>
    records.filter((one) => one.partition === partition).map(({ offset }) => offset)
  return { reader, records, misplaced, offsets }
}

export function describeReaders(world: World): void {
  describe('readers', () => {
    test('reads chosen partitions from chosen offsets, then new records', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 3 })
      for (const partition of range(0, 3)) await log.append(topic, partition, numbered(20))
      const { reader, offsets } = await read(log, topic, [
        [0, 5],
        [2, 20],
      ])
      await eventually('present records', () => offsets(0).length === 15)
      await log.append(topic, 2, numbered(3))
      await eventually('new records', () => offsets(2).length === 3)
      expect(offsets(0)).toEqual(range(5, 20))
      expect(offsets(1)).toEqual([])
      expect(offsets(2)).toEqual([20, 21, 22])
      expect(reader.positions()).toEqual(
        new Map([
          [0, 20],
          [2, 23],
        ]),
      )
    })

    test('a paused partition is silent, a seek reads one that was not read before', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 2 })
      const { reader, offsets } = await read(log, topic, [[0, 0]])
      reader.pause(0)
      await log.append(topic, 0, numbered(4))
      await log.append(topic, 1, numbered(6))
      reader.seek(1, 2)
      await eventually('the other one is read', () => offsets(1).length === 4)
      expect(offsets(0)).toEqual([])
      reader.resume(0)
      await eventually('it goes on', () => offsets(0).length === 4)
      expect(offsets(1)).toEqual([2, 3, 4, 5])
    })

    test('a position outside of the log is reported, and read on behind a seek', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 2 })
      await log.append(topic, 0, numbered(10))
      await log.append(topic, 1, numbered(3))
      await log.deleteRecords(topic, 0, 6)
      const { reader, misplaced, offsets } = await read(log, topic, [
        [0, 2],
        [1, 9],
      ])
      await eventually('both are reported', () => misplaced.length === 2)
      expect(misplaced.toSorted((a, b) => a.partition - b.partition)).toEqual([
        { partition: 0, position: 2, start: 6, end: 10 },
        { partition: 1, position: 9, start: 0, end: 3 },
      ])
      reader.seek(0, 6)
      await eventually('it goes on', () => offsets(0).length === 4)
      expect(offsets(1)).toEqual([])
    })

    test('a closed reader is silent, and none shows as a group', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      const before = await log.listGroups()
      const { reader, records } = await read(log, topic, [[0, 0]])
      const other = await read(log, topic, [[0, 0]])
      await reader.close()
      await log.append(topic, 0, numbered(3))
      await eventually('the other reader has read all', () => other.records.length === 3)
      expect(records).toEqual([])
      expect((await log.listGroups()).filter((group) => !before.includes(group))).toEqual([])
    })
  })
}
