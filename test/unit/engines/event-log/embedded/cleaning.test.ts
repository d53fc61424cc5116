/** What the embedded event log forgets: expired records, superseded ones, and never anything else. */

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { compactTable } from '#engines/event-log/embedded/cleaner.ts'
import { openForWriting } from '#engines/event-log/embedded/log-file.ts'
import { createWriter, nobody } from '#engines/event-log/embedded/writer.ts'
import { type EmbeddedLog, openEmbeddedLog } from '#engines/event-log/embedded.ts'
import type { TopicSpec } from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { packRecords } from '#test/support/pack-records.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import {
  join as joinGroup,
  numbered,
  openTail,
  range,
  readAll,
  record,
  values,
} from '../../../../contract/event-log/world.ts'
import { propertyRuns } from '../../../../support/property-runs.ts'
import { topicSpec } from '../../../../support/topic-spec.ts'

const spec = topicSpec('things', { recordBytesMax: 2_097_152 })

async function openWithTopic(changes: Partial<TopicSpec>) {
  const directory = temporaryFolder()
  // Rounds run when a test asks for one.
  const open = async (): Promise<EmbeddedLog> => {
    const log = await openEmbeddedLog({ directory, sweepEveryMs: 3_600_000 })
    onTestFinished(() => log.close())
    return log
  }
  const log = await open()
  await log.createTopic({ ...spec, ...changes })
  const inFile = (what: string) => {
    const db = new DatabaseSync(join(directory, 'event-log.sqlite'), { readOnly: true })
    const n = db.prepare(`select ${what} as n from p1`).get()?.n
    db.close()
    return n
  }
  /** Records in the batches of the file. */
  const stored = () => inFile('coalesce(sum(last - first + 1), 0)')
  /** Fills a compacted topic. */
  const rows = () => inFile('count(*)')
  return { log, open, stored, rows }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe('retention', () => {
  test('records older than the retention go, also from the file; the next offset stays, over a restart, too', async () => {
    const { log, open, stored } = await openWithTopic({ retentionMs: 300 })
    await log.append('things', 0, numbered(1_500))
    await pause(310)
    await log.append('things', 0, numbered(3, 1_500))
    await log.sweepNow()
    expect(await log.offsets('things')).toEqual([{ partition: 0, start: 1_500, end: 1_503 }])
    expect(values(await readAll(log, 'things'))).toEqual(['1500', '1501', '1502'])
    expect(stored()).toBe(3)
    await pause(310)
    await log.sweepNow()
    expect(stored()).toBe(0)
    await log.close()
    const again = await open()
    expect(await again.offsets('things')).toEqual([{ partition: 0, start: 1_503, end: 1_503 }])
    expect(await again.append('things', 0, numbered(1))).toBe(1_503)
  })

  test('a topic without retention keeps everything', async () => {
    const { log } = await openWithTopic({ retentionMs: null })
    await log.append('things', 0, numbered(10))
    await pause(20)
    await log.sweepNow()
    expect(await readAll(log, 'things')).toHaveLength(10)
  })

  test('a member whose position expires while it is paused is notified; a tail goes on after the gap', async () => {
    const { log } = await openWithTopic({ retentionMs: 200 })
    const member = await joinGroup(log, { group: 'g', topic: 'things', start: () => null })
    await eventually('it owns the partition', () => member.gained.length === 1)
    member.consumer.pause(0)
    member.consumer.seek(0, 0)
    await log.append('things', 0, numbered(5))
    await pause(210)
    await log.append('things', 0, numbered(1, 5))
    await log.sweepNow()
    member.consumer.resume(0)
    await eventually('the alarm', () => member.misplaced.length === 1)
    expect(member.misplaced[0]).toEqual({ partition: 0, position: 0, start: 5, end: 6 })
    member.consumer.seek(0, 5)
    await eventually('it goes on', () => member.records.length === 1)
    const { tail, records } = await openTail(log, 'things', 'beginning')
    await tail.ready
    expect(values(records)).toEqual(['5'])
  })

  test('records that were deleted leave the file with the next round, once all of their row are', async () => {
    const { log, stored } = await openWithTopic({})
    for (const from of range(0, 100)) await log.append('things', 0, numbered(10, from * 10))
    await log.deleteRecords('things', 0, 985)
    await log.sweepNow()
    expect(stored()).toBe(20)
    expect(values(await readAll(log, 'things'))).toEqual(range(985, 1_000).map(String))
    await log.deleteRecords('things', 0, 990)
    await log.sweepNow()
    expect(stored()).toBe(10)
    await log.deleteRecords('things', 0, 1_000)
    await log.sweepNow()
    expect(stored()).toBe(0)
  })
})

describe('compaction', () => {
  test('the background leaves young records alone, and compacts records older than a segment', async () => {
    const { log, rows } = await openWithTopic({ cleanup: 'compact', segmentMs: 600_000 })
    await log.append(
      'things',
      0,
      range(0, 3_000).map((i) => record(`k${i % 10}`, String(i))),
    )
    await log.sweepNow()
    expect(rows()).toBe(3_000)
    const old = await openWithTopic({ cleanup: 'compact', segmentMs: 1 })
    await old.log.append(
      'things',
      0,
      range(0, 3_000).map((i) => record(`k${i % 10}`, String(i))),
    )
    await pause(5)
    await old.log.append('things', 0, [record('end', 'end')])
    await old.log.sweepNow()
    expect(old.rows()).toBe(11)
  })

  test('a tail in progress reads the last record of every key', async () => {
    const { log } = await openWithTopic({ cleanup: 'compact' })
    for (const i of range(0, 30)) {
      await log.append(
        'things',
        0,
        range(0, 200).map((k) => record(`k${k}`, String(i))),
      )
    }
    // The newest record is never touched, nor what it replaces: let it be one that replaces nothing.
    await log.append('things', 0, [record('end', '29')])
    const { tail, records } = await openTail(log, 'things', 'beginning')
    const compacting = log.compactNow('things')
    await Promise.all([tail.ready, compacting])
    const last = new Map(records.map((one) => [one.key!.toString(), one.value!.toString()]))
    expect(last).toEqual(new Map([...range(0, 200).map((k) => `k${k}`), 'end'].map((key) => [key, '29'])))
    expect(await readAll(log, 'things')).toHaveLength(201)
  })

  test.each([
    ['large', 300_000, 60],
    ['small', 10, 3_000],
  ])('appends have their turn between slices of %s records', async (_, valueBytes, records) => {
    const db = openForWriting(join(temporaryFolder(), 'event-log.sqlite'))
    onTestFinished(() => db.close())
    const writer = createWriter(db)
    const { id } = writer.createTopic({ ...spec, cleanup: 'compact' })!.partitions[0]!
    const append = (count: number, bytes: number) => {
      const all = range(0, count).map(() => record('k', 'x'.repeat(bytes)))
      const appends = [{ partitionId: id, records: count, holder: nobody }]
      writer.write({ appends, block: packRecords(all, Date.now()), positions: [] })
    }
    append(records, valueBytes)
    const left = () => db.prepare('select count(*) as n from p1').get()?.n as number
    const state = { removedAtOnceMax: 0, over: false }
    const appending = (async () => {
      for (let before = left(); !state.over; before = left()) {
        await setImmediate()
        state.removedAtOnceMax = Math.max(state.removedAtOnceMax, before - left())
        append(1, 0)
      }
    })()
    const table = writer.tables.get(id)!
    await compactTable(db, table, { alive: () => true, clock: Date.now }, 'now')
    state.over = true
    await appending
    expect(state.removedAtOnceMax).toBeGreaterThan(0)
    expect(state.removedAtOnceMax).toBeLessThanOrEqual(200)
    expect(state.removedAtOnceMax * valueBytes).toBeLessThanOrEqual(1_048_576)
  })

  test('keys are compared byte by byte, and null and empty values are different', async () => {
    const { log } = await openWithTopic({ cleanup: 'compact', tombstoneRetentionMs: 0 })
    const key = (byte: number) => Buffer.from([byte])
    const one = Buffer.from('1')
    await log.append('things', 0, [
      { key: key(0xff), value: one },
      { key: key(0xfe), value: one },
      { key: key(0xfd), value: null },
      { key: key(0xfc), value: Buffer.alloc(0) },
      { key: Buffer.alloc(0), value: one },
      { key: Buffer.from('end'), value: one },
    ])
    await pause(2)
    await log.compactNow('things')
    expect((await readAll(log, 'things')).map((stored) => stored.offset)).toEqual([0, 1, 3, 4, 5])
  })

  test('whatever is appended and compacted in between, a reader ends with the same state', async () => {
    const step = fc.oneof(
      {
        weight: 8,
        arbitrary: fc.record({ kind: fc.constant('put' as const), key: fc.nat(6), value: fc.nat(99) }),
      },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('drop' as const), key: fc.nat(6) }) },
      { weight: 2, arbitrary: fc.constant({ kind: 'compact' as const }) },
    )
    const { log } = await openWithTopic({ cleanup: 'compact', tombstoneRetentionMs: 0 })
    let runs = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const topic = `run${++runs}`
        await log.createTopic({ ...spec, name: topic, cleanup: 'compact', tombstoneRetentionMs: 0 })
        const state = new Map<string, string>()
        let end = 0
        for (const one of steps) {
          if (one.kind === 'compact') {
            await log.compactNow(topic)
            continue
          }
          const value = one.kind === 'put' ? String(one.value) : null
          expect(await log.append(topic, 0, [record(`k${one.key}`, value)])).toBe(end++)
          if (value === null) state.delete(`k${one.key}`)
          else state.set(`k${one.key}`, value)
        }
        const read = new Map<string, string>()
        let last = -1
        for (const stored of await readAll(log, topic)) {
          expect(stored.offset).toBeGreaterThan(last)
          last = stored.offset
          if (stored.value === null) read.delete(stored.key!.toString())
          else read.set(stored.key!.toString(), stored.value.toString())
        }
        expect(read).toEqual(state)
        await log.deleteTopic(topic)
      }),
      { numRuns: propertyRuns(40) },
    )
  })
})
