/** Compaction: the last record of each key stays, offsets stay, tombstones go when their time is over. */

import { describe, expect, type TestContext, test } from 'vitest'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { join, range, readAll, record, type World } from './world.ts'

const compacting = { cleanup: 'compact', segmentMs: 1_000 } as const

const described = (records: StoredRecord[]): string[] =>
  records.map((one) => `${one.offset}:${one.key}=${one.value ?? 'null'}`)

export function describeCompaction(world: World): void {
  /** The harness's way to force compaction; skips the test where the harness has none. */
  function force(context: TestContext): (topic: string) => Promise<void> {
    const way = world.harness().forceCompaction
    return way ?? context.skip('this harness cannot force compaction')
  }

  describe('compaction', () => {
    test('the last record of each key stays under its own offset; a young tombstone stays', async (context) => {
      const compact = force(context)
      const log = await world.client()
      const topic = await world.topic(log, compacting)
      await log.append(topic, 0, [record('a', '1'), record('b', '1'), record('a', '2'), record('c', '1')])
      await log.append(topic, 0, [record('b', null), record('a', '3'), record('end', '1')])
      await compact(topic)
      await eventually(
        'only the last of each key is left',
        async () => (await readAll(log, topic)).length === 4,
        60_000,
      )
      expect(described(await readAll(log, topic))).toEqual(['3:c=1', '4:b=null', '5:a=3', '6:end=1'])
      expect((await log.offsets(topic))[0]!.end).toBe(7)
      expect(await log.append(topic, 0, [record('a', '4')])).toBe(7)
    }, 120_000)

    test('a tombstone goes when its time is over', async (context) => {
      const compact = force(context)
      const log = await world.client()
      const topic = await world.topic(log, { ...compacting, tombstoneRetentionMs: 0 })
      await log.append(topic, 0, [record('a', '1'), record('b', '1'), record('a', null), record('end', '1')])
      await eventually(
        'the tombstone is gone',
        async () => {
          await compact(topic)
          return (await readAll(log, topic)).every((one) => one.key!.toString() !== 'a')
        },
        90_000,
      )
      const rest = (await readAll(log, topic)).map((one) => one.key!.toString())
      expect(rest).toContain('b')
    }, 150_000)

    test('a group reads over the holes without an alarm, and its position stays good', async (context) => {
      const compact = force(context)
      const log = await world.client()
      const topic = await world.topic(log, compacting)
      for (const round of range(0, 20)) {
        await log.append(topic, 0, [record('a', String(round)), record('b', String(round))])
      }
      await log.append(topic, 0, [record('end', '1')])
      const group = world.name('group')
      await log.setPositions(group, topic, [{ partition: 0, offset: 10 }])
      await compact(topic)
      await eventually('it is compacted', async () => (await readAll(log, topic)).length === 3, 60_000)
      const member = await join(log, { group, topic })
      await eventually('it reads the remaining records', () => member.records.length === 3)
      expect(described(member.records)).toEqual(['38:a=19', '39:b=19', '40:end=1'])
      expect(member.misplaced).toEqual([])
    }, 120_000)
  })
}
