/** A gateway that has just started knows the progress reported before. */

import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import type { Codec } from '#runtime/publish/messages.ts'
import { openProgress } from '#services/vectors/read/operations/progress.ts'
import { jsonCodec, testPublisher } from '#test/support/consumer-wiring.ts'
import { topicSpec } from '#test/support/index-writer.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'
import { vectorsProgress } from '#topics/catalog.ts'

/** Its first use of each schema asks the registry, which takes its time. */
const slowCodec: Codec = {
  ...jsonCodec,
  async decode(topic, record) {
    await sleep(50)
    return await jsonCodec.decode(topic, record)
  },
}

test('as soon as it is open, also when the registry is slow', async () => {
  const eventLog = createMemoryLog()
  await eventLog.createTopic(topicSpec('vectors.progress'))
  const publisher = testPublisher(eventLog, 1)
  const value = { index: 'vectors', generation: 1, partition: 0, epoch: 1, applied_through: 41, failures: 0 }
  await publisher.publish(vectorsProgress, [{ key: value, value }])
  const engine = { liveGeneration: async () => 1 }
  const log = pino({ level: 'silent' })
  const parts = { eventLog, publisher, log, vectors: engine, mirror: engine }
  const progress = await openProgress({ ...parts, codec: slowCodec })
  onTestFinished(() => progress.close())
  expect(progress.appliedThrough(0)).toBe(41)
})

test('where a record of progress cannot be read, the rows are asked whether something failed', async () => {
  const eventLog = createMemoryLog()
  await eventLog.createTopic(topicSpec('vectors.progress'))
  const publisher = testPublisher(eventLog, 1)
  const value = { index: 'vectors', generation: 1, partition: 0, epoch: 1, applied_through: 41, failures: 0 }
  const damaged = { key: Buffer.from('vectors/1/0'), value: Buffer.from('{"poison":true}') }
  await eventLog.append('vectors.progress', 0, [damaged])
  await publisher.publish(vectorsProgress, [{ key: value, value }])
  const engine = { liveGeneration: async () => 1 }
  const log = pino({ level: 'silent' })
  const parts = { eventLog, publisher, log, codec: jsonCodec, vectors: engine, mirror: engine }
  const progress = await openProgress(parts)
  onTestFinished(() => progress.close())
  expect(progress.appliedThrough(0)).toBe(41)
  expect([progress.failures(0), progress.mirrored.failures(0)]).toEqual([1, 1])
})
