/** Promises of the consumer runtime on every event log driver. */

import { describe, expect, onTestFinished, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import { done, park, retry, unavailable } from '#lib/outcome.ts'
import type { RunningConsumer } from '#runtime/consume/consumer.ts'
import { replayDeadLetter } from '#runtime/consume/dead-letter-replay.ts'
import { listDeadLetters } from '#runtime/consume/dead-letters.ts'
import { decodeMetadata } from '#runtime/consume/metadata.ts'
import { createHarness, type Harness, testTopic } from '#test/support/consumer-harness.ts'
import { readDeadLetter } from '#test/support/dead-letters.ts'
import { eventually } from '#test/support/eventually.ts'

/** `open` gives a log of its own to each test, which closes it. */
export function describeConsumer(driver: string, open: () => Promise<EventLog>): void {
  async function started(partitions = 1, cleanup: 'delete' | 'compact' = 'delete') {
    const log = await open()
    onTestFinished(() => log.close())
    const topic = testTopic(`work-${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`, cleanup)
    return createHarness(log, { partitions, topic })
  }
  async function positions({ eventLog, topic }: Harness) {
    const { committed } = await eventLog.groupState('workers', topic.name)
    return new Map(committed.map((one) => [one.partition, one]))
  }
  async function committedThrough(harness: Harness, count: number): Promise<void> {
    await eventually(
      `${count} records are committed`,
      async () =>
        [...(await positions(harness)).values()].reduce((sum, one) => sum + one.offset, 0) === count,
      60_000,
    )
  }
  const owning = (consumer: RunningConsumer, count: number) =>
    eventually(`${count} partitions are owned`, () => consumer.state().partitions.length === count, 60_000)
  const keyed = (count: number, lanes: number) =>
    Array.from({ length: count }, (_, n) => ({ key: `lane-${n % lanes}` }))

  describe(`a consumer on the ${driver} log`, () => {
    test('handles every record once and in order while nothing goes wrong, in batches and in lanes', async () => {
      const harness = await started(3)
      const seen = new Map<string, number[]>()
      const note = ({ partition, offset, key }: { partition: number; offset: number; key: string }) => {
        const lane = `${partition}/${key}`
        seen.set(lane, [...(seen.get(lane) ?? []), offset])
      }
      for (let partition = 0; partition < 3; partition++) await harness.add(partition, keyed(2_000, 20))
      const first = await harness.startBatches({
        async handle(messages) {
          messages.forEach(note)
          return messages.map(() => done)
        },
      })
      await committedThrough(harness, 6_000)
      await first.close()
      for (let partition = 0; partition < 3; partition++) await harness.add(partition, keyed(2_000, 20))
      await harness.startLanes({
        concurrency: 16,
        async handle(message) {
          await new Promise((resolve) => setImmediate(resolve))
          note(message)
          return done
        },
      })
      await committedThrough(harness, 12_000)
      expect([...seen.values()].flat()).toHaveLength(12_000)
      for (const offsets of seen.values()) expect(offsets).toEqual(offsets.toSorted((a, b) => a - b))
    })

    test('a lane that hangs delays no other lane and no other partition; a restart repeats nothing that is done', async () => {
      const harness = await started(2)
      const stuck = Promise.withResolvers<void>()
      const through: string[] = []
      const options = {
        callTimeoutMs: 3_000,
        async handle({ partition, key, offset }: { partition: number; key: string; offset: number }) {
          if (key === 'lane-0' && partition === 0) await stuck.promise
          through.push(`${partition}/${offset}`)
          return done
        },
      }
      for (let partition = 0; partition < 2; partition++) await harness.add(partition, keyed(1_000, 10))
      const first = await harness.startLanes({ ...options, callTimeoutMs: 3_000 })
      await eventually('the others are through', () => through.length === 1_900, 60_000)
      await eventually('so says the commit', async () => {
        const one = (await positions(harness)).get(0)
        return one && decodeMetadata(one.metadata, one.offset)?.settled.size === 900
      })
      await eventually(
        'the other is committed',
        async () => (await positions(harness)).get(1)?.offset === 1_000,
      )
      const closing = first.close()
      stuck.resolve()
      await closing
      await harness.startLanes(options)
      await committedThrough(harness, 2_000)
      expect(through).toHaveLength(2_000)
    })

    test('an engine that is away parks nothing, and work goes on by itself when it is back', async () => {
      const harness = await started(2)
      let away = true
      let probes = 0
      const attempts = new Set<number>()
      const consumer = await harness.startBatches({
        retriesMax: 0,
        async handle(messages, { attempt }) {
          attempts.add(attempt)
          return messages.map(() => (away ? unavailable('engine', 'away') : done))
        },
        async probe() {
          probes++
          if (away) throw new Error('away')
        },
      })
      for (let partition = 0; partition < 2; partition++) await harness.add(partition, keyed(100, 10))
      await eventually('it was asked for some time', () => probes >= 10, 60_000)
      expect(consumer.state().waitingFor).toBe('engine')
      away = false
      await committedThrough(harness, 200)
      expect([...attempts]).toEqual([1])
      expect((await harness.deadLetters()).size).toBe(0)
    })

    test('members that come and go in the middle of slow work never run a lane twice at once, and lose nothing', async () => {
      const harness = await started(4)
      const running = new Set<string>()
      const handled = new Map<string, number>()
      const overlaps: string[] = []
      const options = {
        callTimeoutMs: 1_500,
        concurrency: 4,
        async handle({ partition, key, offset }: { partition: number; key: string; offset: number }) {
          const lane = `${partition}/${key}`
          if (running.has(lane)) overlaps.push(lane)
          running.add(lane)
          // Heeds no signal: what a lost partition started goes on for a while.
          await new Promise((resolve) => setTimeout(resolve, 40))
          running.delete(lane)
          handled.set(`${partition}/${offset}`, (handled.get(`${partition}/${offset}`) ?? 0) + 1)
          return done
        },
      }
      const first = await harness.startLanes(options)
      for (let partition = 0; partition < 4; partition++) await harness.add(partition, keyed(120, 6))
      await owning(first, 4)
      await eventually('the first works', () => handled.size > 40, 60_000)
      const second = await harness.startLanes(options)
      await owning(second, 2)
      await eventually('both have worked', () => handled.size > 200, 60_000)
      await first.close()
      await committedThrough(harness, 480)
      expect(overlaps).toEqual([])
      expect(handled.size).toBe(480)
      const repeated = [...handled.values()].filter((times) => times > 1).length
      // Two partitions moved, each with at most four calls in flight and as many done and not committed yet.
      expect(repeated).toBeLessThanOrEqual(16)
    })

    test('tries, retries and parks; a replayed dead letter comes again as a new event', async () => {
      const harness = await started(1, 'compact')
      let healed = false
      const calls: string[] = []
      await harness.startBatches({
        async handle(messages) {
          calls.push(...messages.map(({ key, headers }) => `${key} ${headers['replayed-from'] ?? ''}`.trim()))
          if (healed) return messages.map(() => done)
          return messages.map(({ key }) =>
            key === 'lane-1' ? park('no') : key === 'lane-2' ? retry('later') : done,
          )
        },
      })
      await harness.add(0, keyed(4, 4))
      await committedThrough(harness, 4)
      const dependencies = { ...harness, topics: [harness.topic] }
      const listed = await listDeadLetters(dependencies)
      expect(listed.map(({ recordKey, attempts }) => ({ recordKey, attempts }))).toEqual([
        { recordKey: 'lane-1', attempts: 0 },
        { recordKey: 'lane-2', attempts: 3 },
      ])
      healed = true
      await harness.add(0, [{ key: 'lane-1' }])
      const replay = async (n: number) =>
        replayDeadLetter(dependencies, await readDeadLetter(dependencies, listed[n]!))
      await expect(replay(0)).rejects.toMatchObject({ code: 'superseded' })
      await replay(1)
      await committedThrough(harness, 6)
      expect(calls.at(-1)).toBe(`lane-2 ${harness.topic.name}/workers/0/2`)
      expect(await listDeadLetters(dependencies)).toHaveLength(1)
    })

    test('second copies of an event are dropped, also when the first was handled before a restart', async () => {
      const harness = await started()
      const seen: number[] = []
      const options = {
        async handle({ offset }: { offset: number }) {
          seen.push(offset)
          return done
        },
      }
      const first = await harness.startLanes(options)
      await harness.add(0, [{ id: 'a' }, { id: 'b' }, { id: 'a' }])
      await committedThrough(harness, 3)
      await first.close()
      await harness.startLanes(options)
      await harness.add(0, [{ id: 'b' }, { id: 'c' }])
      await committedThrough(harness, 5)
      expect(seen).toEqual([0, 1, 4])
    })

    test('waiting records beyond their share of memory come through later, in order', async () => {
      const harness = await started(64)
      const stuck = Promise.withResolvers<void>()
      const slow: number[] = []
      let others = 0
      const consumer = await harness.startLanes({
        callTimeoutMs: 60_000,
        async handle({ key, offset }) {
          if (key === 'other') {
            others++
            return done
          }
          if (offset === 0) await stuck.promise
          slow.push(offset)
          return done
        },
      })
      await owning(consumer, 64)
      const text = 'x'.repeat(30_000)
      const total = 200
      const entries = Array.from({ length: total }, (_, n) =>
        n % 5 === 4 ? { key: 'other' } : { key: 'slow', value: { text } },
      )
      for (let n = 0; n < total; n += 20) await harness.add(0, entries.slice(n, n + 20))
      // 64 partitions: lanes have 1.5 MiB of each, and so 50 records of the slow one.
      await eventually('the other lane goes on', () => others >= 10, 60_000)
      expect(others).toBeLessThan(total / 10)
      stuck.resolve()
      await committedThrough(harness, total)
      expect(others).toBe(total / 5)
      expect(slow).toEqual(Array.from({ length: total }, (_, n) => n).filter((n) => n % 5 !== 4))
    })

    test('a position that has expired stops its partition and no other', async () => {
      const harness = await started(2)
      for (let partition = 0; partition < 2; partition++) await harness.add(partition, keyed(50, 5))
      await harness.eventLog.deleteRecords(harness.topic.name, 0, 20)
      const consumer = await harness.startBatches({ handle: async (messages) => messages.map(() => done) })
      await eventually('it says so', () => consumer.state().stopped[0]?.partition === 0, 60_000)
      await eventually(
        'the other goes on',
        async () => (await positions(harness)).get(1)?.offset === 50,
        60_000,
      )
      expect((await positions(harness)).get(0)?.offset).toBe(0)
    })
  })
}
