/** The times of the embedded log, and what it forgets, while the wall clock is wrong. */

import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createCleaner } from '#engines/event-log/embedded/cleaner.ts'
import { openForWriting } from '#engines/event-log/embedded/log-file.ts'
import { createClock } from '#engines/event-log/embedded/record-block.ts'
import { createWriter } from '#engines/event-log/embedded/writer.ts'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import type { TopicSpec } from '#engines/event-log/port.ts'
import { packRecords } from '#test/support/pack-records.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import { numbered, readAll } from '../../../../contract/event-log/world.ts'

const hour = 3_600_000
const day = 24 * hour
const start = Date.UTC(2026, 0, 1)

/** A clock, and the wall clock that it looks at. */
function openClock() {
  const state = { passed: 0, wrongBy: 0 }
  const clock = createClock({
    startAt: start,
    believedAfterMs: hour,
    wall: () => start + state.passed + state.wrongBy,
    steady: () => state.passed,
  })
  return {
    clock,
    pass(ms: number, wrongBy = state.wrongBy): number {
      state.passed += ms
      state.wrongBy = wrongBy
      return clock() - start
    },
  }
}

describe('the clock', () => {
  test('follows the wall clock, also over small corrections ahead', () => {
    const { pass } = openClock()
    expect([pass(0), pass(100), pass(day), pass(1_000, 30_000)]).toEqual([0, 100, day + 100, day + 31_100])
  })

  test('goes on by itself while the wall clock is ahead for a while', () => {
    const { pass } = openClock()
    expect(pass(1_000, 2 * hour)).toBe(1_000)
    expect(pass(1_000, 400 * day)).toBe(2_000)
    expect(pass(1_000, 0)).toBe(3_000)
    expect(pass(2 * hour, 0)).toBe(2 * hour + 3_000)
  })

  test('believes a wall clock that stays ahead', () => {
    const { pass } = openClock()
    expect(pass(1_000, 2 * hour)).toBe(1_000)
    expect(pass(hour - 1)).toBe(hour + 999)
    expect(pass(1)).toBe(3 * hour + 1_000)
    expect(pass(1_000)).toBe(3 * hour + 2_000)
  })

  test('remains where it is while the wall clock is behind', () => {
    const { pass } = openClock()
    expect(pass(hour)).toBe(hour)
    expect(pass(1_000, -90 * day)).toBe(hour)
    expect(pass(1_000, 0)).toBe(hour + 2_000)
  })

  test('never steps back, and is never ahead of what the wall clock has shown', () => {
    const steps = fc.array(fc.tuple(fc.nat(2 * hour), fc.integer({ min: -day, max: day })))
    fc.assert(
      fc.property(steps, (all) => {
        const { pass } = openClock()
        let [last, passed, ahead] = [0, 0, 0]
        for (const [ms, wrongBy] of all) {
          passed += ms
          ahead = Math.max(ahead, wrongBy)
          const now = pass(ms, wrongBy)
          expect(now).toBeGreaterThanOrEqual(last)
          expect(now).toBeLessThanOrEqual(passed + ahead)
          last = now
        }
      }),
    )
  })
})

const spec: TopicSpec = {
  name: 'things',
  partitions: 1,
  cleanup: 'delete',
  retentionMs: 7 * day,
  tombstoneRetentionMs: day,
  segmentBytes: 67_108_864,
  segmentMs: 600_000,
  recordBytesMax: 2_097_152,
}

describe('a wall clock that is wrong', () => {
  test('neither stops appends nor lets the times of records step back or run ahead', async () => {
    const directory = temporaryFolder()
    const log = await openEmbeddedLog({ directory, sweepEveryMs: hour })
    onTestFinished(() => log.close())
    await log.createTopic(spec)
    const { now } = Date
    onTestFinished(() => void vi.restoreAllMocks())
    for (const [n, wrongBy] of [0, 2 * hour, -90 * day, 400 * day, 0].entries()) {
      vi.spyOn(Date, 'now').mockImplementation(() => now() + wrongBy)
      expect(await log.append('things', 0, numbered(1, n))).toBe(n)
    }
    const times = (await readAll(log, 'things')).map(({ timestamp }) => timestamp)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    expect(times.at(-1)! - times[0]!).toBeLessThan(60_000)
  })

  test('does not carry the times of records behind those of an earlier process', async () => {
    const directory = temporaryFolder()
    const before = await openEmbeddedLog({ directory, sweepEveryMs: hour })
    await before.createTopic(spec)
    await before.append('things', 0, numbered(1))
    await before.close()
    const { now } = Date
    vi.spyOn(Date, 'now').mockImplementation(() => now() - 90 * day)
    onTestFinished(() => void vi.restoreAllMocks())
    const log = await openEmbeddedLog({ directory, sweepEveryMs: hour })
    onTestFinished(() => log.close())
    await log.append('things', 0, numbered(1, 1))
    const [first, second] = (await readAll(log, 'things')).map(({ timestamp }) => timestamp)
    expect(second).toBeGreaterThanOrEqual(first!)
  })

  test('expires nothing while it is ahead for a moment', async () => {
    const db = openForWriting(join(temporaryFolder(), 'event-log.sqlite'))
    onTestFinished(() => db.close())
    const writer = createWriter(db)
    const { id } = writer.createTopic(spec)!.partitions[0]!
    const trimmed: number[] = []
    const { clock, pass } = openClock()
    const cleaner = createCleaner(db, writer, { clock, trimmed: (_, to) => trimmed.push(to) })
    const append = (ms: number) =>
      writer.write({
        appends: [{ partitionId: id, records: 2, holder: 0 }],
        block: packRecords(numbered(2), start + ms),
        positions: [],
      })
    append(0)
    pass(5 * day)
    append(5 * day)
    pass(1_000, 400 * day)
    await cleaner.sweep()
    expect(trimmed).toEqual([])
    pass(1_000, 0)
    pass(3 * day)
    await cleaner.sweep()
    expect(trimmed).toEqual([2])
  })
})
