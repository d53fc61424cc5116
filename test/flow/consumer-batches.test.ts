/** Batch mode: what a handler's outcomes do to the records of a partition. */

import { describe, expect, test } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { done, park, retry, split, unavailable } from '#lib/outcome.ts'
import { createHarness, type Work } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'

const values = (messages: Work[]) => messages.map((message) => (message.value as unknown as { n: number }).n)
const numbered = (count: number, key = 'k') =>
  Array.from({ length: count }, (_, n) => ({ key, value: { n } }))

async function started(partitions = 1) {
  const log = createMemoryLog()
  const harness = await createHarness(log, { partitions })
  const committed = () => log.commits.at(-1)?.offset ?? 0
  return { log, harness, committed }
}

describe('batch mode', () => {
  test('hands over contiguous batches in order, one at a time for a partition, and commits behind them', async () => {
    const { log, harness, committed } = await started()
    const batches: number[][] = []
    let running = 0
    await harness.startBatches({
      batchRecordsMax: 30,
      async handle(messages) {
        expect(++running).toBe(1)
        await new Promise((resolve) => setTimeout(resolve, 2))
        running--
        batches.push(values(messages))
        return messages.map(() => done)
      },
    })
    await harness.add(0, numbered(200))
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => committed() === 200)
    expect(batches.flat()).toEqual(Array.from({ length: 200 }, (_, n) => n))
    expect(Math.max(...batches.map((batch) => batch.length))).toBe(30)
  })

  test('work that may wait is fetched together, of all partitions; the first record after a rest is not held up', async () => {
    const { log, harness } = await started(3)
    const gatherMs = 1_000
    const batches: string[] = []
    await harness.startBatches({
      gatherMs,
      async handle(messages) {
        batches.push(`${messages[0]!.partition}: ${values(messages)}`)
        return messages.map(() => done)
      },
    })
    await log.members[0]!.gain([0, 1, 2])
    // The times that they share are those of the process's clock.
    await sleep(gatherMs - (performance.now() % gatherMs) + 5)
    await harness.add(1, [{ value: { n: 0 } }])
    await eventually('the first one', () => batches.length > 0)
    for (let n = 1; n <= 4; n++) {
      await harness.add(n % 2, [{ value: { n } }])
      await sleep(10)
    }
    expect(batches).toEqual(['1: 0'])
    await eventually('the others', () => batches.length > 2)
    expect(batches.slice(1).toSorted()).toEqual(['0: 2,4', '1: 1,3'])
  })

  test('cuts batches by bytes', async () => {
    const { log, harness, committed } = await started()
    const sizes: number[] = []
    await harness.startBatches({
      batchBytesMax: 1_000,
      async handle(messages) {
        sizes.push(messages.length)
        return messages.map(() => done)
      },
    })
    await harness.add(
      0,
      Array.from({ length: 12 }, () => ({ value: { text: 'x'.repeat(300) } })),
    )
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => committed() === 12)
    expect(Math.max(...sizes)).toBe(3)
  })

  test('halves a refused batch until the bad record is alone; only that one is retried and parked', async () => {
    const { log, harness, committed } = await started()
    const handled: number[] = []
    const alone: number[] = []
    const reported: string[] = []
    await harness.startBatches({
      async handle(messages) {
        const numbers = values(messages)
        if (numbers.length === 1 && numbers[0] === 41) alone.push(41)
        if (numbers.includes(41)) throw new TypeError('41 breaks everything')
        handled.push(...numbers)
        return messages.map(() => done)
      },
      async onParked(parked) {
        reported.push(...parked.map(({ position, reason }) => `${position.offset}: ${reason}`))
      },
    })
    await harness.add(0, numbered(100))
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => committed() === 100)
    expect(handled).toEqual(Array.from({ length: 100 }, (_, n) => n).filter((n) => n !== 41))
    expect(alone).toHaveLength(3)
    expect(reported).toEqual(['41: TypeError: 41 breaks everything'])
    const letters = await harness.deadLetters()
    expect([...letters.keys()]).toEqual(['workers/0/41'])
    expect(letters.get('workers/0/41')).toMatchObject({
      topic: harness.topic.name,
      partition: 0,
      offset: 41,
      consumer_group: 'workers',
      reason: 'TypeError: 41 breaks everything',
      attempts: 3,
      key: Buffer.from('k'),
      value: Buffer.from('{"n":41}'),
      headers: { 'event-id': 'work-41' },
    })
  })

  test('halves what a handler calls refused, and parks the bad record without a retry before it goes on', async () => {
    const { log, harness, committed } = await started()
    const order: string[] = []
    await harness.startBatches({
      batchRecordsMax: 16,
      async handle(messages) {
        const numbers = values(messages)
        if (numbers.includes(5)) return numbers.map((n) => (n < 2 ? done : split('5 is refused')))
        order.push(...numbers.map(String))
        return numbers.map(() => done)
      },
      onParked: async (parked) =>
        void order.push(...parked.map(({ position, reason }) => `${position.offset}: ${reason}`)),
    })
    await harness.add(
      0,
      Array.from({ length: 16 }, (_, n) => ({ key: `k${n}`, value: { n } })),
    )
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => committed() === 16)
    const applied = Array.from({ length: 14 }, (_, n) => String(n + 2))
    expect(order).toEqual(applied.map((n) => (n === '5' ? '5: 5 is refused' : n)))
    expect((await harness.deadLetters()).get('workers/0/5')).toMatchObject({ attempts: 0 })
  })

  test('parks at once what can never work and what cannot be decoded, before the commit passes it', async () => {
    const { log, harness, committed } = await started()
    const order: string[] = []
    await harness.startBatches({
      async handle(messages) {
        return values(messages).map((n) => (n === 1 ? park('1 is not wanted') : done))
      },
      onParked: async (parked) =>
        void order.push(`reported ${parked.map(({ position }) => position.offset)}`),
      beforeCommit: async (_, through) => void order.push(`through ${through}`),
    })
    await harness.add(0, [...numbered(3), { value: { poison: true } }, ...numbered(1)])
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => committed() === 5)
    expect(order).toEqual(['reported 3', 'reported 1', 'through 4'])
    const letters = await harness.deadLetters()
    expect(letters.get('workers/0/1')).toMatchObject({ reason: '1 is not wanted', attempts: 0 })
    expect(letters.get('workers/0/3')).toMatchObject({
      reason: 'it cannot be decoded: Error: these bytes are no message',
    })
  })

  test('retries single records and runs the later ones of their key again after them', async () => {
    const { log, harness, committed } = await started()
    const calls: string[][] = []
    let failures = 2
    await harness.startBatches({
      async handle(messages, { attempt }) {
        calls.push(messages.map((message) => `${message.key}${message.offset}`))
        if (calls.length > 1) expect(attempt).toBe(calls.length)
        return messages.map(({ offset }) => (offset === 1 && failures-- > 0 ? retry('not yet', 1) : done))
      },
    })
    await harness.add(
      0,
      ['a', 'b', 'a', 'b', 'c'].map((key) => ({ key })),
    )
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => committed() === 5)
    expect(calls).toEqual([
      ['a0', 'b1', 'a2', 'b3', 'c4'],
      ['b1', 'b3'],
      ['b1', 'b3'],
    ])
  })

  test('an engine that is away parks nothing and counts no try; the whole group waits for its probe', async () => {
    const { log, harness, committed } = await started(2)
    let away = true
    const attempts: number[] = []
    let probes = 0
    const consumer = await harness.startBatches({
      retriesMax: 0,
      async handle(messages, { attempt }) {
        attempts.push(attempt)
        if (away && attempts.length % 2) throw new AppError('vector_engine_unavailable', 'gone fishing')
        return messages.map(() => (away ? unavailable('vector_engine', 'gone fishing') : done))
      },
      async probe(engine) {
        expect(engine).toBe('vector_engine')
        probes++
        if (away) throw new Error('still away')
      },
    })
    await harness.add(0, numbered(10))
    await harness.add(1, numbered(10))
    await log.members[0]!.gain([0, 1])
    await eventually('it is asked often', () => probes >= 10)
    expect(attempts.length).toBeLessThanOrEqual(2)
    expect(consumer.state().waitingFor).toBe('vector_engine')
    away = false
    await eventually(
      'both are committed',
      () => new Set(log.commits.filter((c) => c.offset === 10).map((c) => c.partition)).size === 2,
    )
    expect(new Set(attempts)).toEqual(new Set([1]))
    expect(consumer.state().waitingFor).toBeNull()
    expect((await harness.deadLetters()).size).toBe(0)
    expect(committed()).toBe(10)
  })

  test('without a probe the calls themselves find out whether the engine is back', async () => {
    const { log, harness } = await started(4)
    let away = true
    let calls = 0
    await harness.startBatches({
      retriesMax: 0,
      async handle(messages) {
        calls++
        return messages.map(() => (away ? unavailable('engine', 'away') : done))
      },
    })
    for (let partition = 0; partition < 4; partition++) await harness.add(partition, numbered(3))
    await log.members[0]!.gain([0, 1, 2, 3])
    await eventually('some trials were made', () => calls > 12)
    away = false
    await eventually(
      'all are committed',
      () => new Set(log.commits.filter((one) => one.offset === 3).map((one) => one.partition)).size === 4,
    )
  })

  test('a call that takes too long is aborted, retried only after it has ended, and then parked', async () => {
    const { log, harness, committed } = await started()
    let running = 0
    let aborted = 0
    await harness.startBatches({
      callTimeoutMs: 40,
      retriesMax: 1,
      async handle(_messages, { signal }) {
        expect(++running).toBe(1)
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => setTimeout(resolve, 10)))
        aborted++
        running--
        return [done]
      },
    })
    await harness.add(0, numbered(1))
    await log.members[0]!.gain([0])
    await eventually('it is parked', () => committed() === 1)
    expect(aborted).toBe(2)
    expect((await harness.deadLetters()).get('workers/0/0')).toMatchObject({
      reason: 'no outcome within 40 ms',
    })
  })

  test('dead letter, onParked, beforeCommit and commit are repeated until they succeed', async () => {
    const { log, harness, committed } = await started()
    const order: string[] = []
    let parkFaults = 2
    let commitFaults = 2
    await harness.startBatches({
      handle: async (messages) => messages.map(() => park('no')),
      async onParked() {
        order.push('onParked')
        if (parkFaults-- > 0) throw new AppError('relational_engine_unavailable', 'away')
      },
      async beforeCommit() {
        order.push('beforeCommit')
        if (commitFaults-- > 0) throw new Error('not now')
      },
    })
    await harness.add(0, numbered(1))
    await log.members[0]!.gain([0])
    log.away = true
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(order).toEqual([])
    log.away = false
    log.members[0]!.answers.push('again', 'again')
    await eventually('it is committed', () => committed() === 1)
    expect(order).toEqual([...Array(3).fill('onParked'), ...Array(3).fill('beforeCommit')])
  })

  test('a second copy of an event is dropped, also after a restart; not on compacted topics', async () => {
    const { log, harness, committed } = await started()
    const seen: number[] = []
    const options = {
      async handle(messages: Work[]) {
        seen.push(...messages.map((message) => message.offset))
        return messages.map(() => done)
      },
    }
    const first = await harness.startBatches(options)
    await harness.add(0, [{ id: 'a' }, { id: 'b' }, { id: 'a' }, { id: 'c' }])
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => committed() === 4)
    await first.close()
    await harness.add(0, [{ id: 'b' }, { id: 'd' }, { id: 'd' }])
    await harness.startBatches(options)
    await log.members[1]!.gain([0])
    await eventually('the rest is committed', () => committed() === 7)
    expect(seen).toEqual([0, 1, 3, 5])
    expect(await harness.metrics.metrics()).toContain(
      'flotilla_consumer_dropped_repeats_total{group="workers"',
    )
  })
})
