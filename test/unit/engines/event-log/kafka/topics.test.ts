/** What the driver asks for a new topic. */

import { expect, test } from 'vitest'
import { newTopic } from '#engines/event-log/kafka/topics.ts'
import type { TopicSpec } from '#engines/event-log/port.ts'

const spec: TopicSpec = {
  name: 'things',
  partitions: 1,
  cleanup: 'delete',
  retentionMs: null,
  tombstoneRetentionMs: 1,
  segmentBytes: 1_048_576,
  segmentMs: 1,
  recordBytesMax: 1_000,
}

test('an acknowledged record has two copies wherever there are two brokers', () => {
  const copies = [1, 2, 3, 5].map((brokers) => {
    const { replicationFactor, configs } = newTopic(spec, brokers)
    return [replicationFactor, configs.find(({ name }) => name === 'min.insync.replicas')?.value]
  })
  expect(copies).toEqual([
    [1, '1'],
    [2, '2'],
    [3, '2'],
    [3, '2'],
  ])
})
