/** Reading through a network that goes silent, and what a reader does at once although a request of it waits. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { eventually } from '#test/support/eventually.ts'
import { openTestLog, quietMs, underWayMs } from '#test/support/kafka-log.ts'
import { openProxiedKafka, type ProxiedKafka } from '#test/support/kafka-proxy.ts'
import { topicSpec } from '#test/support/topic-spec.ts'
import { join, openTail, range } from '../contract/event-log/world.ts'

const partitions = 12
/** Only ends a hang. */
const patienceMs = 90_000

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
    to.append(name, partition, [{ key: null, value: Buffer.from('x') }], { timeoutMs: 60_000 })
  for (const partition of range(0, partitions)) await append(partition)
  const member = await join(log, { group: `${name}-group`, topic: name })
  await eventually('all are read', () => member.records.length === partitions, patienceMs)
  // The requests that wait for more are under way.
  await sleep(300)
  return { name, log, member, append }
}

function offsetsOf(records: { partition: number; offset: number }[], partition: number): number[] {
  return records.filter((record) => record.partition === partition).map(({ offset }) => offset)
}

/** How many fetches are answered until the work is done. */
async function fetchAnswers(work: () => Promise<unknown>): Promise<number> {
  const before = kafka.answers('fetch')
  await work()
  return kafka.answers('fetch') - before
}

/**
 * Each of these works ends at once: with so few answers to fetches that it cannot have waited for a fetch
 * in flight to end by itself. Such a fetch may end meanwhile by chance, so the first work that shows it is enough.
 */
async function expectAtOnce(answersMax: number, works: (() => Promise<unknown>)[]): Promise<void> {
  const answers: number[] = []
  for (const work of works) {
    answers.push(await fetchAnswers(work))
    if (answers.at(-1)! <= answersMax) return
  }
  expect(Math.min(...answers)).toBeLessThanOrEqual(answersMax)
}

/** The process sends fewer requests than so many in a second, soon. */
function untilFewRequests(perSecondMax: number): Promise<boolean> {
  return eventually(
    `fewer than ${perSecondMax} requests in a second`,
    async () => {
      const before = kafka.requests()
      await sleep(5_000)
      return (kafka.requests() - before) / 5 < perSecondMax
    },
    patienceMs,
  )
}

describe('a network that goes silent', () => {
  for (const [which, restMs] of [
    ['fetch', 0],
    ['fetch', quietMs],
    ['heartbeat', 0],
    ['all', 0],
    ['all', quietMs],
  ] as const) {
    test(`reading goes on, nothing is lost: ${which} after ${restMs} ms of rest`, async () => {
      const { name, log, member, append } = await openIdleMember()
      const { tail, records } = await openTail(log, name, 'beginning')
      await tail.ready
      await sleep(restMs)
      await eventually('there is such a connection', () => kafka.silence(which).connections > 0)
      const writer = await open()
      await append(3, writer)
      const bothRead = () => member.offsets(3).length === 2 && records.length === partitions + 1
      await eventually('both read', bothRead, patienceMs)
      await eventually('the tail is current', () => tail.current(), patienceMs)
      const commits = async () => (await member.consumer.commit(3, 2, '')) === 'committed'
      await eventually('it commits', commits, patienceMs)
      expect(member.consumer.alive()).toBe(true)
      expect([member.lost, member.misplaced]).toEqual([[], []])
    }, 300_000)
  }

  test('a member that was cut off for longer than its session commits nothing under its old generation', async () => {
    const { name, member } = await openIdleMember()
    kafka.refuse(true)
    onTestFinished(() => kafka.refuse(false))
    kafka.silence('all')
    await eventually('it is not alive', () => !member.consumer.alive(), patienceMs)
    // The broker ends the session by then.
    await sleep(6_000)
    kafka.refuse(false)
    const results: string[] = []
    await eventually(
      'it learns that it lost them',
      async () => {
        const result = await member.consumer.commit(5, 1, 'late')
        results.push(result)
        return result === 'lost' || member.lost.length > 0
      },
      patienceMs,
    )
    expect(results).not.toContain('committed')
    await eventually('it owns all again', () => member.gained.length === 2 * partitions, patienceMs)
    expect(member.lost.toSorted((a, b) => a - b)).toEqual(range(0, partitions))
    expect((await (await open()).groupState(`${name}-group`, name)).committed).toEqual([])
  }, 120_000)
})

describe('a fetch that waits', () => {
  test('resume, seek and close act at once, also many of them one after the other', async () => {
    const { member, append } = await openIdleMember()
    for (const partition of range(0, 6)) member.consumer.pause(partition)
    await sleep(underWayMs)
    for (const partition of range(0, 6)) await append(partition)
    const resume = (partition: number) => () => {
      expect(member.offsets(partition)).toEqual([0])
      member.consumer.resume(partition)
      return eventually('the rest is read', () => member.offsets(partition).length === 2, patienceMs)
    }
    const seek = (partition: number) => () => {
      member.consumer.seek(partition, 0)
      return eventually('both are read again', () => member.offsets(partition).length >= 4, patienceMs)
    }
    await expectAtOnce(1, [0, 1, 2].map(resume))
    await expectAtOnce(1, [3, 4, 5].map(resume))
    const read = [...range(0, 6)].filter((partition) => member.offsets(partition).length === 2)
    await expectAtOnce(1, read.map(seek))
    for (const partition of range(0, 6)) {
      const offsets = member.offsets(partition)
      expect(offsets).toEqual([0, 1, 0, 1].slice(0, offsets.length))
    }
    const others = [await openIdleMember(), await openIdleMember()].map((other) => other.member)
    await expectAtOnce(
      0,
      [member, ...others].map(
        ({ consumer }) =>
          () =>
            consumer.close(),
      ),
    )
  }, 240_000)

  test('readers that are quiet share their requests, and each reads new records at once and once', async () => {
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
    // Heartbeats, what the tails are asked for, and one fetch in 2.5 s for all six readers.
    await untilFewRequests(4)
    const answers: number[] = []
    const whole = [...range(0, partitions)].map((partition) => `${partition}/0`)
    for (const round of range(1, 4)) {
      const both = () =>
        [member.offsets(round), offsetsOf(tails[0]!.records, round)].every((seen) => seen.length === 2)
      answers.push(
        await fetchAnswers(async () => {
          await append(round)
          await eventually('the member and the tail have it', both, patienceMs)
        }),
      )
      // Some are quiet again by then, others are not.
      await sleep(round * 1_200)
    }
    expect(Math.min(...answers)).toBeLessThanOrEqual(1)
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
  }, 240_000)

  test('a quiet reader that pauses, resumes and seeks reads from where it wants, at once', async () => {
    const { member, append } = await openIdleMember()
    await sleep(quietMs)
    const paused = [3, 4, 5]
    for (const partition of paused) member.consumer.pause(partition)
    await sleep(underWayMs)
    for (const partition of paused) await append(partition)
    await append(6)
    await eventually('the other one goes on', () => member.offsets(6).length === 2, patienceMs)
    for (const partition of paused) expect(member.offsets(partition)).toEqual([0])
    await expectAtOnce(
      1,
      paused.map((partition) => () => {
        member.consumer.resume(partition)
        return eventually('the rest is read', () => member.offsets(partition).length === 2, patienceMs)
      }),
    )
    await expectAtOnce(
      1,
      [7, 8, 9].map((partition) => async () => {
        member.consumer.seek(partition, 0)
        await eventually('it is read again', () => member.offsets(partition).length === 2, patienceMs)
        expect(member.offsets(partition)).toEqual([0, 0])
      }),
    )
  }, 240_000)

  test('a member without work sends few requests, and reads new records at once', async () => {
    const { member, append } = await openIdleMember()
    await untilFewRequests(5)
    await expectAtOnce(
      1,
      [7, 8, 9].map((partition) => async () => {
        await append(partition)
        await eventually('it is read', () => member.offsets(partition).length === 2, patienceMs)
      }),
    )
  }, 240_000)
})
