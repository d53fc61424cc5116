/** Reading through a network that goes silent, and what a reader does at once although a request of it waits. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { eventually } from '#test/support/eventually.ts'
import { openTestLog } from '#test/support/kafka-log.ts'
import { openProxiedKafka, type ProxiedKafka } from '#test/support/kafka-proxy.ts'
import { topicSpec } from '#test/support/topic-spec.ts'
import { join, openTail, range } from '../contract/event-log/world.ts'

const partitions = 12
/** Much sooner than a fetch that waits ends by itself. */
const atOnceMs = 1_000
const silenceMs = 10_000
/** Longer than two waits: the first finds that nothing comes, the second is shared. */
const quietMs = 6_000

let kafka: ProxiedKafka
let names = 0

beforeAll(async () => {
  kafka = await openProxiedKafka(1)
})

afterAll(async () => {
  await kafka?.close()
})

const open = () => openTestLog(kafka.brokers, 'reading')

/** A member that owns and reads all partitions of a new topic, where nothing more comes. */
async function openIdleMember() {
  const log = await open()
  const name = `reading${names++}`
  await log.createTopic(topicSpec(name, { partitions }))
  const append = (partition: number, to: EventLog = log) =>
    to.append(name, partition, [{ key: null, value: Buffer.from('x') }], { timeoutMs: 20_000 })
  for (const partition of range(0, partitions)) await append(partition)
  const member = await join(log, { group: `${name}-group`, topic: name })
  await eventually('all are read', () => member.records.length === partitions)
  // The requests that wait for more are under way.
  await sleep(300)
  return { name, log, member, append }
}

function offsetsOf(records: { partition: number; offset: number }[], partition: number): number[] {
  return records.filter((record) => record.partition === partition).map(({ offset }) => offset)
}

async function elapsedMs(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

describe('a network that goes silent', () => {
  for (const [which, restMs] of [
    ['fetch', 0],
    ['fetch', quietMs],
    ['heartbeat', 0],
    ['all', 0],
    ['all', quietMs],
  ] as const) {
    test(`reading goes on soon, nothing is lost: ${which} after ${restMs} ms of rest`, async () => {
      const { name, log, member, append } = await openIdleMember()
      const { tail, records } = await openTail(log, name, 'beginning')
      await tail.ready
      await sleep(restMs)
      await eventually('there is such a connection', () => kafka.silence(which).connections > 0)
      const writer = await open()
      await append(3, writer)
      const tookMs = await elapsedMs(() =>
        eventually(
          'both read',
          () => member.offsets(3).length === 2 && records.length === partitions + 1,
          90_000,
        ),
      )
      expect(tookMs).toBeLessThan(silenceMs)
      await eventually('the tail is current', () => tail.current(), 10_000)
      await eventually(
        'it commits',
        async () => (await member.consumer.commit(3, 2, '')) === 'committed',
        20_000,
      )
      expect(member.consumer.alive()).toBe(true)
      expect([member.lost, member.misplaced]).toEqual([[], []])
    }, 120_000)
  }

  test('a member that was cut off for longer than its session commits nothing under its old generation', async () => {
    const { name, member } = await openIdleMember()
    kafka.refuse(true)
    onTestFinished(() => kafka.refuse(false))
    kafka.silence('all')
    await eventually('it is not alive', () => !member.consumer.alive(), 20_000)
    // The broker ends the session by then.
    await sleep(3_000)
    kafka.refuse(false)
    const results: string[] = []
    await eventually(
      'it learns that it lost them',
      async () => {
        const result = await member.consumer.commit(5, 1, 'late')
        results.push(result)
        return result === 'lost' || member.lost.length > 0
      },
      30_000,
    )
    expect(results).not.toContain('committed')
    await eventually('it owns all again', () => member.gained.length === 2 * partitions, 30_000)
    expect(member.lost.toSorted((a, b) => a - b)).toEqual(range(0, partitions))
    expect((await (await open()).groupState(`${name}-group`, name)).committed).toEqual([])
  }, 120_000)
})

describe('a fetch that waits', () => {
  test('resume, seek and close act at once, also many of them one after the other', async () => {
    const { member, append } = await openIdleMember()
    for (const partition of range(0, 6)) {
      member.consumer.pause(partition)
      await append(partition)
    }
    for (const partition of range(0, 6)) {
      expect(member.offsets(partition)).toEqual([0])
      const resumedMs = await elapsedMs(() => {
        member.consumer.resume(partition)
        return eventually('the rest is read', () => member.offsets(partition).length === 2)
      })
      expect(resumedMs).toBeLessThan(atOnceMs)
      const soughtMs = await elapsedMs(() => {
        member.consumer.seek(partition, 0)
        return eventually('both are read again', () => member.offsets(partition).length === 4)
      })
      expect(soughtMs).toBeLessThan(atOnceMs)
      expect(member.offsets(partition)).toEqual([0, 1, 0, 1])
    }
    expect(await elapsedMs(() => member.consumer.close())).toBeLessThan(atOnceMs)
  }, 60_000)

  test('readers that are quiet share their requests, and each reads what comes at once and once', async () => {
    const { name, log, member, append } = await openIdleMember()
    const topics = [name]
    const tails = await Promise.all([openTail(log, name, 'beginning'), openTail(log, name, 'end')])
    for (const index of range(0, 3)) {
      const topic = `${name}-${index}`
      await log.createTopic(topicSpec(topic, { partitions }))
      topics.push(topic)
      tails.push(await openTail(log, topic, 'end'))
    }
    await Promise.all(tails.map(({ tail }) => tail.ready))
    await sleep(quietMs)
    const before = kafka.requests()
    const seconds = 10
    await sleep(seconds * 1_000)
    // Heartbeats, what the tails are asked for, and one fetch in 2.5 s for all six readers.
    expect((kafka.requests() - before) / seconds).toBeLessThan(4)
    const whole = [...range(0, partitions)].map((partition) => `${partition}/0`)
    for (const round of range(1, 4)) {
      const tookMs = await elapsedMs(async () => {
        await append(round)
        await eventually('the member and both tails have it', () =>
          [member.offsets(round), offsetsOf(tails[0]!.records, round)].every((seen) => seen.length === 2),
        )
      })
      expect(tookMs).toBeLessThan(atOnceMs)
      // Some are quiet again by then, others are not.
      await sleep(round * 1_200)
    }
    const seen = member.records.map(({ partition, offset }) => `${partition}/${offset}`)
    expect(seen.toSorted()).toEqual([...whole, '1/1', '2/1', '3/1'].toSorted())
    expect(tails[0]!.records.map(({ partition, offset }) => `${partition}/${offset}`).toSorted()).toEqual(
      seen.toSorted(),
    )
    expect(tails[1]!.records.map(({ partition, offset }) => `${partition}/${offset}`)).toEqual([
      '1/1',
      '2/1',
      '3/1',
    ])
    expect(tails.slice(2).flatMap(({ records }) => records)).toEqual([])
  }, 90_000)

  test('a quiet reader that pauses, resumes and seeks reads from where it wants, at once', async () => {
    const { member, append } = await openIdleMember()
    await sleep(quietMs)
    member.consumer.pause(4)
    await append(4)
    await append(5)
    await eventually('the other one goes on', () => member.offsets(5).length === 2)
    expect(member.offsets(4)).toEqual([0])
    const tookMs = await elapsedMs(async () => {
      member.consumer.resume(4)
      await eventually('the rest is read', () => member.offsets(4).length === 2)
      member.consumer.seek(6, 0)
      await eventually('it is read again', () => member.offsets(6).length === 2)
    })
    expect(tookMs).toBeLessThan(atOnceMs)
    expect(member.offsets(6)).toEqual([0, 0])
  }, 60_000)

  test('a member without work sends few requests, and reads what comes at once', async () => {
    const { member, append } = await openIdleMember()
    const before = kafka.requests()
    const seconds = 10
    await sleep(seconds * 1_000)
    expect((kafka.requests() - before) / seconds).toBeLessThan(5)
    const tookMs = await elapsedMs(async () => {
      await append(7)
      await eventually('it is read', () => member.offsets(7).length === 2)
    })
    expect(tookMs).toBeLessThan(atOnceMs)
  }, 60_000)
})
