/** Cases that park no record: a hanging engine, moved partitions, a registry without the schema, a stop in mid-call. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { type BatchOutcome, done } from '#lib/outcome.ts'
import { type CallContext, startBatchConsumer } from '#runtime/consume/consumer.ts'
import { createCodec } from '#runtime/publish/codec.ts'
import { createPublisher } from '#runtime/publish/publisher.ts'
import { entries, isCommitted, started } from '#test/support/consumer-commits.ts'
import type { Work } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { deadLettersOf } from '#topics/dead-letters.ts'

/** An engine that answers nothing while it hangs: a call of it ends with its signal. */
function createEngine() {
  const state = { hangs: true, attempts: [] as number[] }
  const handle = async (messages: Work[], { signal, attempt }: CallContext): Promise<BatchOutcome[]> => {
    state.attempts.push(attempt)
    if (state.hangs) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      throw new Error('aborted')
    }
    return messages.map(() => done)
  }
  return { state, handle }
}

describe('an index writer whose engine hangs', () => {
  test('waits, counts no attempt and parks nothing', async () => {
    const { log, harness } = await started()
    const { state, handle } = createEngine()
    const consumer = await harness.startBatches({
      engine: 'vectors',
      callTimeoutMs: 30,
      retriesMax: 2,
      handle,
      probe: async () => {},
    })
    await harness.add(0, entries(100))
    await log.members[0]!.gain([0])
    await eventually('it was tried more often than a record may fail', () => state.attempts.length > 5)
    expect(harness.lines.some((line) => line.msg === 'consumer.engine-away')).toBe(true)
    state.hangs = false
    await eventually('all are committed', () => isCommitted(log, 100))
    expect(new Set(state.attempts)).toEqual(new Set([1]))
    expect((await harness.deadLetters()).size).toBe(0)
    expect(consumer.state().waitingFor).toBeNull()
  })

  test('is not counted on when the process stops in mid-call', async () => {
    const { log, harness } = await started()
    const { state, handle } = createEngine()
    for (let life = 0; life < 2; life++) {
      const consumer = await harness.startBatches({ callTimeoutMs: 60_000, retriesMax: 0, handle })
      if (life === 0) await harness.add(0, entries(1))
      await log.members[life]!.gain([0])
      await eventually('it hangs', () => consumer.state().inFlight === 1)
      await consumer.close()
    }
    expect(new Set(state.attempts)).toEqual(new Set([1]))
    expect((await harness.deadLetters()).size).toBe(0)
  })
})

describe('a record that hangs while its partition moves from member to member', () => {
  test.each(['of one process', 'of several processes'])('%s is never blamed for it', async (whose) => {
    const { log, harness } = await started()
    const { state, handle } = createEngine()
    await harness.add(0, entries(1))
    for (let n = 0; n <= 10; n++) {
      if (whose === 'of several processes') log.clientId = `process-${n}`
      await harness.startBatches({ callTimeoutMs: 100, retriesMax: 1_000, handle })
      const calls = state.attempts.length
      await log.members[n]!.gain([0])
      await eventually('it hangs here', () => state.attempts.length > calls)
      if (n < 10) log.members[n]!.lose([0])
    }
    state.hangs = false
    await eventually('it is committed', () => isCommitted(log, 1))
    expect((await harness.deadLetters()).size).toBe(0)
  })
})

test('records of a schema id that the registry does not know are waited for; bytes that are no value are parked', async () => {
  const { log, harness } = await started('compact', true)
  const letters = deadLettersOf(vectorsCommands)
  const spec = (await log.describeTopic(harness.topic.name))!
  for (const name of [vectorsCommands.name, letters.name])
    await log.createTopic({ ...spec, name, partitions: 1 })
  await log.setPositions('readers', vectorsCommands.name, [{ partition: 0, offset: 0 }])
  const texts = new Map<number, string>()
  let knows = true
  const registry = {
    async register(_subject: string, text: string) {
      const known = [...texts].find(([, one]) => one === text)
      if (!known) texts.set(texts.size + 1, text)
      return known?.[0] ?? texts.size
    },
    async schemaById(id: number) {
      if (!knows) throw new AppError('not_found', 'Schema not found')
      return texts.get(id)!
    },
  }
  const placeOf = (name: string) => [name, { physicalName: name, epoch: 1, partitions: 1 }] as const
  const locations = new Map([vectorsCommands.name, letters.name].map(placeOf))
  const publisherWith = (codec: ReturnType<typeof createCodec>) =>
    createPublisher({ eventLog: log, codec, locations, producerName: 'test' })
  const value = { vector: Buffer.alloc(4), payload: '{}', embedder: null, making: null, expires_at: null }
  const messages = Array.from({ length: 20 }, (_, n) => ({
    key: { collection: 'posts', id: `p${n}` },
    value,
  }))
  await publisherWith(createCodec(registry as never)).publish(vectorsCommands, messages)
  await log.append(vectorsCommands.name, 0, [{ key: Buffer.from('posts/x'), value: Buffer.from('no value') }])
  knows = false
  // Another process, which has asked for no schema yet.
  const codec = createCodec(registry as never)
  const handled: number[] = []
  const consumer = await startBatchConsumer(
    { ...harness, codec, publisher: publisherWith(codec) },
    {
      group: 'readers',
      topic: vectorsCommands,
      callTimeoutMs: 1_000,
      retriesMax: 0,
      backoff: { baseMs: 1, maxMs: 5 },
      batchRecordsMax: 5,
      batchBytesMax: 1_000_000,
      async handle(batch) {
        handled.push(...batch.map((message) => message.offset))
        return batch.map(() => done)
      },
    },
  )
  onTestFinished(() => consumer.close())
  await log.members[0]!.gain([0])
  await eventually('it waits', () =>
    harness.lines.some((line) => String(line.reason).includes('not in the registry')),
  )
  expect(log.records(letters.name)).toEqual([])
  knows = true
  await eventually('all are committed', () => isCommitted(log, 21))
  expect(handled).toEqual(Array.from({ length: 20 }, (_, n) => n))
  expect(log.records(letters.name)).toHaveLength(1)
})
