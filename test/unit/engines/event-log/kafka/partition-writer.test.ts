/**
 * Writers of partitions against a log that keeps Kafka's rule of producer ids, epochs and sequences: which sends are
 * refused, which are stored once, when a fence is written.
 */

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  createOwnIdentities,
  type Identities,
  takeIdentities,
} from '#engines/event-log/kafka/partition-writer.ts'
import {
  IdentityRefused,
  type ProduceClient,
  type ProducerIdentity,
  type Send,
  type Sender,
  SendFault,
} from '#engines/event-log/kafka/sender.ts'
import type { TopicFactsCache } from '#engines/event-log/kafka/topics.ts'
import { createProducer, type Producer } from '#engines/event-log/kafka.ts'
import { eventually } from '#test/support/eventually.ts'

const known = { partitions: 3, recordBytesMax: 1_000_000, batchBytesMax: 1_004_096 }
const facts: TopicFactsCache = { get: async () => known, refresh: async () => known, forget() {} }
const records = (...values: string[]) => values.map((value) => ({ key: null, value: Buffer.from(value) }))
const fence = 'null'

/** A partition's log and what its broker knows of each producer id. */
function createPartition() {
  const values: string[] = []
  const producers = new Map<bigint, { epoch: number; next: number; past: Map<number, number> }>()
  /** Kafka's rule: the next sequence of the epoch, repeats by their offset, no earlier epoch, a later one from 0. */
  function append({ identity, sequence, records }: Send): number {
    const state = producers.get(identity.id) ?? { epoch: -1, next: 0, past: new Map<number, number>() }
    if (identity.epoch < state.epoch) throw new SendFault('INVALID_PRODUCER_EPOCH', true)
    if (identity.epoch > state.epoch)
      Object.assign(state, { epoch: identity.epoch, next: 0, past: new Map() })
    const repeated = state.past.get(sequence)
    if (repeated !== undefined) return repeated
    if (sequence !== state.next) throw new SendFault('OUT_OF_ORDER_SEQUENCE_NUMBER', true)
    const offset = values.length
    state.past.set(sequence, offset)
    state.next += records.length
    producers.set(identity.id, state)
    values.push(...records.map(({ value }) => String(value)))
    return offset
  }
  /** As a leader that was elected without having the last record. */
  function loseLast(): void {
    values.pop()
    for (const state of producers.values()) state.next--
  }
  return { values, append, loseLast }
}

type Fate = 'stored' | 'answer lost' | 'late' | SendFault

/** `fate` decides each send; late ones are kept in `late`. */
function setUp(fate: (send: Send, n: number) => Fate, identities?: Identities) {
  const partitions = [createPartition(), createPartition(), createPartition()]
  const sends: Send[] = []
  const late: (() => void)[] = []
  const sender: Sender = {
    lastNode: (_, partition) => partition % 2,
    async send(batch) {
      sends.push(batch)
      const becomes = fate(batch, sends.length)
      const store = () => partitions[batch.partition]!.append(batch)
      if (becomes === 'stored') return store()
      if (becomes === 'answer lost') store()
      if (becomes === 'late') late.push(store)
      throw becomes instanceof SendFault ? becomes : new SendFault(null, false)
    },
  }
  const own = identities ?? createOwnIdentities(async () => ({ id: 7n, epoch: 0 }))
  const producer: Producer = createProducer(sender, facts, own)
  return { producer, partitions, sends, late }
}

const unavailable = { code: 'log_unavailable' }
const places = (sends: Send[]) => sends.map(({ identity, sequence }) => [identity.epoch, sequence])

describe('the writer of a partition', () => {
  test('a batch whose answer was lost is repeated as it was, stored once, and answered with its offset', async () => {
    const { producer, partitions, sends } = setUp((_, n) => (n === 2 ? 'answer lost' : 'stored'))
    expect(await producer.append('t', 0, records('a', 'b'))).toBe(0)
    expect(await producer.append('t', 0, records('c'))).toBe(2)
    expect(await producer.append('t', 0, records('d'))).toBe(3)
    expect(partitions[0]!.values).toEqual(['a', 'b', 'c', 'd'])
    expect(places(sends)).toEqual([0, 2, 2, 3].map((sequence) => [0, sequence]))
  })

  test('the rest of an abandoned batch is refused behind the next one', async () => {
    const { producer, partitions, sends, late } = setUp(({ records }) =>
      String(records[0]!.value) === 'lost' ? 'late' : 'stored',
    )
    await producer.append('t', 0, records('a'))
    const lost = expect(producer.append('t', 0, records('lost'), { timeoutMs: 200 })).rejects.toMatchObject(
      unavailable,
    )
    await eventually('it is under way', () => late.length > 0)
    const next = producer.append('t', 0, records('b'), { timeoutMs: 5_000 })
    await Promise.all([lost, next])
    for (const arrive of late) expect(arrive).toThrow('INVALID_PRODUCER_EPOCH')
    expect(partitions[0]!.values).toEqual(['a', 'b'])
    expect(places(sends).at(-1)).toEqual([1, 0])
  })

  test('a fence follows a batch that was given up when nothing else does, however often it takes', async () => {
    const { producer, partitions, late } = setUp(({ records }, n) =>
      records[0]!.value === null && n % 5 !== 0 ? new SendFault('NOT_LEADER_OR_FOLLOWER', false) : 'late',
    )
    const stored = setUp((send) => (send.records[0]!.value === null ? 'stored' : 'late'))
    for (const one of [producer, stored.producer]) {
      await expect(one.append('t', 0, records('lost'), { timeoutMs: 20 })).rejects.toMatchObject(unavailable)
    }
    await eventually('the fence', () => stored.partitions[0]!.values.length === 1)
    expect(stored.partitions[0]!.values).toEqual([fence])
    for (const arrive of stored.late) expect(arrive).toThrow('INVALID_PRODUCER_EPOCH')
    await eventually('fences are tried again', () => late.length > 3)
    expect(partitions[0]!.values).toEqual([])
  })

  test('no fence follows a batch of which nothing left', async () => {
    const down = new SendFault(null, true)
    let away = true
    const { producer, partitions, sends } = setUp(() => (away ? down : 'stored'))
    await expect(producer.append('t', 0, records('a'), { timeoutMs: 20 })).rejects.toMatchObject(unavailable)
    const [tries] = [sends.length]
    expect(tries).toBeGreaterThan(0)
    await new Promise((resolve) => setTimeout(resolve, 100))
    away = false
    await producer.append('t', 0, records('b'), { timeoutMs: 5_000 })
    expect(partitions[0]!.values).toEqual(['b'])
    expect(places(sends).at(-1)).toEqual([0, 0])
  })

  test('a broker that lost the sequence gets the same batch in the next epoch', async () => {
    const { producer, partitions, sends } = setUp(() => 'stored')
    await producer.append('t', 0, records('a'))
    await producer.append('t', 0, records('b'))
    partitions[0]!.loseLast()
    expect(await producer.append('t', 0, records('c', 'd'))).toBe(1)
    await producer.append('t', 0, records('e'))
    expect(partitions[0]!.values).toEqual(['a', 'c', 'd', 'e'])
    expect(places(sends.slice(-3))).toEqual([
      [0, 2],
      [1, 0],
      [1, 2],
    ])
  })

  test('other partitions go over to a raised epoch with their next batch, from sequence 0', async () => {
    const { producer, sends } = setUp(({ partition }, n) => (partition === 0 && n < 4 ? 'late' : 'stored'))
    await producer.append('t', 1, records('a', 'b'))
    await expect(producer.append('t', 0, records('lost'), { timeoutMs: 1 })).rejects.toMatchObject(
      unavailable,
    )
    await eventually('the fence', () => sends.at(-1)!.records[0]!.value === null)
    await producer.append('t', 1, records('c'))
    await producer.append('t', 2, records('d'))
    const epoch = sends.at(-1)!.identity.epoch
    expect(epoch).toBeGreaterThan(0)
    expect(places(sends.slice(-2))).toEqual([
      [epoch, 0],
      [epoch, 0],
    ])
  })
})

describe('identities of our own', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  function setUpIds() {
    let last = 0n
    return createOwnIdentities(async () => ({ id: ++last, epoch: 0 }))
  }

  test('the epoch is raised once for all that ask, and a new id is taken when it is used up', async () => {
    const ids = setUpIds()
    const first = await ids.current()
    expect(await ids.after(first)).toEqual({ id: 1n, epoch: 1 })
    expect(await ids.after(first)).toEqual({ id: 1n, epoch: 1 })
    expect(await ids.current()).toEqual({ id: 1n, epoch: 1 })
    let past: ProducerIdentity = first
    while (past.epoch < 32_766) past = await ids.after(past)
    const last = await ids.after(past)
    expect(last).toEqual({ id: 1n, epoch: 32_767 })
    expect(await ids.current()).toEqual({ id: 2n, epoch: 0 })
    // Only the next epoch of the old id refuses its late records.
    expect(await ids.after(past)).toEqual(last)
    expect(await ids.after(last)).toEqual({ id: 2n, epoch: 0 })
  })

  test('after twelve hours without a write a new id is taken', async () => {
    const ids = setUpIds()
    await ids.current()
    vi.advanceTimersByTime(11 * 3_600_000)
    expect((await ids.current()).id).toBe(1n)
    vi.advanceTimersByTime(13 * 3_600_000)
    expect((await ids.current()).id).toBe(2n)
  })

  test('a name renews its epoch twice a day, and is fenced for good when another one has it', async () => {
    let epoch = -1
    const asked: (number | undefined)[] = []
    const identify = async (name: string | undefined, former: ProducerIdentity | undefined) => {
      expect(name).toBe('flotilla-writer')
      asked.push(former?.epoch)
      if (former && former.epoch !== epoch) throw new IdentityRefused('PRODUCER_FENCED')
      return { id: 9n, epoch: ++epoch }
    }
    const ids = await takeIdentities(identify as ProduceClient['identify'], 'writer', (work) => work())
    const first = await ids.current()
    expect(first).toEqual({ id: 9n, epoch: 0 })
    vi.advanceTimersByTime(13 * 3_600_000)
    expect(await ids.current()).toEqual({ id: 9n, epoch: 1 })
    expect(await ids.after(first)).toEqual({ id: 9n, epoch: 1 })
    epoch = 5
    const held = await ids.current()
    await expect(ids.after(held)).rejects.toMatchObject({ code: 'fenced' })
    epoch = 1
    await expect(ids.current()).rejects.toMatchObject({ code: 'fenced' })
    expect(asked).toEqual([undefined, 0, 1])
  })
})
