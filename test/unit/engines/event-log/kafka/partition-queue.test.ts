/**
 * The queue of one partition in the Kafka producer, against a sender that fails on demand: order, repetition,
 * deadlines, bounds.
 */

import { describe, expect, test } from 'vitest'
import type { Identities } from '#engines/event-log/kafka/partition-writer.ts'
import { type Sender, SendFault } from '#engines/event-log/kafka/sender.ts'
import type { TopicFactsCache } from '#engines/event-log/kafka/topics.ts'
import { createProducer } from '#engines/event-log/kafka.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'

type Sent = { partition: number; values: string[] }

const facts: TopicFactsCache = {
  get: async () => ({ partitions: 3, recordBytesMax: 1_000_000, batchBytesMax: 1_004_096 }),
  refresh: async () => ({ partitions: 3, recordBytesMax: 1_000_000, batchBytesMax: 1_004_096 }),
  forget() {},
}
const identities: Identities = {
  current: async () => ({ id: 7n, epoch: 0 }),
  after: async (past) => ({ ...past, epoch: past.epoch + 1 }),
}
const records = (...values: string[]) => values.map((value) => ({ key: null, value: Buffer.from(value) }))

/** Appends go to `stored`; each send first asks `fail`, which may throw, wait, or store the batch and throw. */
function setUp(fail: (sent: Sent, n: number, store: () => void) => Promise<void> | void = () => {}) {
  const sends: Sent[] = []
  const stored = new Map<number, string[]>()
  const sender: Sender = {
    lastNode: (_, partition) => partition % 2,
    async send({ partition, records }) {
      const sent = { partition, values: records.map((record) => String(record.value)) }
      sends.push(sent)
      const store = () => stored.set(partition, [...(stored.get(partition) ?? []), ...sent.values])
      await fail(sent, sends.length, store)
      const offset = stored.get(partition)?.length ?? 0
      store()
      return offset
    },
  }
  return { producer: createProducer(sender, facts, identities), sends, stored }
}

const fault = (type: string) => new SendFault(type, false)

describe('the queue of a partition', () => {
  test('pending appends go out as one batch behind the one in flight; each gets its own offset', async () => {
    const { producer, sends } = setUp(() => sleep(5))
    const appends = ['a', 'b', 'c'].map((value) => producer.append('t', 0, records(value, `${value}2`)))
    expect(await Promise.all(appends)).toEqual([0, 2, 4])
    expect(sends.map((sent) => sent.values.length)).toEqual([6])
    const more = [producer.append('t', 0, records('d')), producer.append('t', 0, records('e'))]
    expect(await Promise.all(more)).toEqual([6, 7])
  })

  test('who is patient goes with the next one to the same broker, or of the same partition, else at its time', async () => {
    const { producer, sends } = setUp()
    const patient = (partition: number, value: string, patienceMs: number) =>
      producer.append('t', partition, records(value), { patienceMs })
    const same = patient(2, 'same broker', 5_000)
    const other = patient(1, 'other broker', 5_000)
    await sleep(5)
    expect(sends).toEqual([])
    await Promise.all([producer.append('t', 0, records('now')), same])
    expect(sends.map((sent) => sent.values)).toEqual([['now'], ['same broker']])
    await Promise.all([producer.append('t', 1, records('now')), other])
    expect(sends.at(-1)!.values).toEqual(['other broker', 'now'])
    await Promise.all([patient(0, 'late', 20), patient(0, 'with it', 1_000)])
    expect(sends.at(-1)!.values).toEqual(['late', 'with it'])
    const last = patient(0, 'at the end', 60_000)
    await producer.close()
    await last
  })

  test('a batch holds at most 500 records', async () => {
    const { producer, sends } = setUp(() => sleep(1))
    await Promise.all(Array.from({ length: 1_200 }, (_, i) => producer.append('t', 0, records(String(i)))))
    expect(sends.map((sent) => sent.values.length)).toEqual([500, 500, 200])
  })

  test('the same batch is sent again until it is acknowledged; later ones never overtake it', async () => {
    const { producer, sends, stored } = setUp((_, n) => {
      if (n <= 3) throw fault('NOT_LEADER_OR_FOLLOWER')
    })
    const first = producer.append('t', 0, records('a'), { timeoutMs: 5_000 })
    await sleep(1)
    const second = producer.append('t', 0, records('b'), { timeoutMs: 5_000 })
    expect(await Promise.all([first, second])).toEqual([0, 1])
    expect(sends.slice(0, 4).map((sent) => sent.values)).toEqual([['a'], ['a'], ['a'], ['a']])
    expect(stored.get(0)).toEqual(['a', 'b'])
  })

  test('a caller whose time is over is refused, and its batch makes way only when its last send has ended', async () => {
    const blocked = Promise.withResolvers<void>()
    const { producer, sends } = setUp(async (_, n) => {
      if (n > 1) return
      await blocked.promise
      throw fault('NOT_LEADER_OR_FOLLOWER')
    })
    await expect(producer.append('t', 0, records('a'), { timeoutMs: 30 })).rejects.toMatchObject({
      code: 'log_unavailable',
    })
    const next = producer.append('t', 0, records('b'), { timeoutMs: 5_000 })
    await sleep(50)
    expect(sends).toHaveLength(1)
    blocked.resolve()
    await next
    expect(sends.map((sent) => sent.values)).toEqual([['a'], ['b']])
  })

  test('partitions do not wait for each other', async () => {
    const { producer } = setUp(({ partition }) => (partition === 0 ? sleep(60_000) : undefined))
    const stuck = producer.append('t', 0, records('a'), { timeoutMs: 200 })
    expect(await producer.append('t', 1, records('b'))).toBe(0)
    await expect(stuck).rejects.toMatchObject({ code: 'log_unavailable' })
  })

  test('a record above the limit and a partition that is not there are refused before anything is sent', async () => {
    const { producer, sends } = setUp()
    const large = [{ key: null, value: Buffer.alloc(1_000_001) }]
    await expect(producer.append('t', 0, large)).rejects.toMatchObject({ code: 'payload_too_large' })
    await expect(producer.append('t', 7, records('a'))).rejects.toMatchObject({ code: 'not_found' })
    expect(sends).toEqual([])
    expect(await producer.append('t', 0, records('a'))).toBe(0)
  })

  test('a full queue refuses at once, and takes again when it has room', async () => {
    const blocked = Promise.withResolvers<void>()
    const { producer } = setUp((_, n) => (n === 1 ? blocked.promise : undefined))
    const body = Buffer.alloc(900_000)
    const append = () => producer.append('t', 0, [{ key: null, value: body }], { timeoutMs: 20_000 })
    const appends = Array.from({ length: 60 }, append)
    const results = Promise.allSettled(appends)
    await sleep(1)
    blocked.resolve()
    const refused = (await results).filter((result) => result.status === 'rejected')
    expect(refused.length).toBeGreaterThan(10)
    for (const { reason } of refused) expect(reason).toMatchObject({ code: 'overloaded' })
    expect(await append()).toBeGreaterThan(0)
  })

  test('while no broker answers for the topic, callers are refused in time and nothing is kept', async () => {
    const away: TopicFactsCache = {
      ...facts,
      get: () => Promise.reject(new AppError('log_unavailable', 'away')),
    }
    const sender = { lastNode: () => undefined, send: () => Promise.reject(new Error('unused')) }
    const producer = createProducer(sender, away, identities)
    await expect(producer.append('t', 0, records('a'), { timeoutMs: 50 })).rejects.toMatchObject({
      code: 'log_unavailable',
    })
    await producer.close()
    await expect(producer.append('t', 0, records('a'))).rejects.toMatchObject({ code: 'log_unavailable' })
  })
})
