/** The topics of the platform: what they are for, and what the log holds of them now. */

import { Type } from 'typebox'
import type { PartitionRange } from '#engines/event-log/port.ts'
import { catalog } from '#topics/catalog.ts'
import type { Reader, Topic } from '#topics/topic.ts'
import { findTopic } from './find-topic.ts'
import { defineOperation, type OperatedPlatform } from './operation.ts'

interface TopicView {
  topic: string
  purpose: string
  /** What its key is, in words. */
  key: string
  schema: string
  /** Where it lives in the log; both change when it is grown by copying. */
  physical_name: string
  epoch: number
  cleanup: Topic['cleanup']
  /** null: the last record of each key is kept, or all until their reader is done. */
  retention_ms: number | null
  writers: string[]
  readers: { service: string; group: string | null; reads: string }[]
  /** Offsets that the log spans; compaction leaves holes in them. */
  records: number
  partitions: PartitionRange[]
}

export const listTopicsOperation = defineOperation({
  name: 'topics list',
  needs: [],
  args: Type.Object({}),
  async run({ platform }): Promise<{ topics: TopicView[] }> {
    return { topics: await Promise.all(catalog.map((topic) => viewOf(platform, topic))) }
  },
})

export const showTopicOperation = defineOperation({
  name: 'topics show',
  needs: [],
  args: Type.Object({ topic: Type.String() }),
  run: ({ platform }, { topic }): Promise<TopicView> => viewOf(platform, findTopic(topic)),
})

interface PartitionFactsView {
  partitions: {
    partition: number
    leader: string | null
    replicas: number
    in_sync: number
    bytes: number | null
  }[]
  /** Of all; null where that of one is not known. */
  bytes: number | null
}

export const partitionFactsOperation = defineOperation({
  name: 'topics partitions',
  needs: [],
  args: Type.Object({ topic: Type.String() }),
  async run({ platform }, { topic: name }): Promise<PartitionFactsView> {
    const { physicalName } = platform.publisher.locationOf(findTopic(name))
    const facts = await platform.engines.eventLog.partitionFacts(physicalName)
    const known = facts.every(({ bytes }) => bytes !== null)
    return {
      partitions: facts.map(({ inSync, ...fact }) => ({ ...fact, in_sync: inSync })),
      bytes: known ? facts.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0) : null,
    }
  },
})

async function viewOf({ engines, publisher }: OperatedPlatform, topic: Topic): Promise<TopicView> {
  const { physicalName, epoch } = publisher.locationOf(topic)
  const ranges = await engines.eventLog.offsets(physicalName)
  const partitions = ranges
    .map(({ partition, start, end }) => ({ partition, start, end }))
    .sort((a, b) => a.partition - b.partition)
  return {
    topic: topic.name,
    purpose: topic.purpose,
    key: topic.keyedBy,
    schema: topic.schema,
    physical_name: physicalName,
    epoch,
    cleanup: topic.cleanup,
    retention_ms: topic.retentionMs,
    writers: topic.writers,
    readers: topic.readers.map(readerOf),
    records: partitions.reduce((sum, { start, end }) => sum + end - start, 0),
    partitions,
  }
}

function readerOf(reader: Reader): TopicView['readers'][number] {
  if ('group' in reader) return { service: reader.service, group: reader.group, reads: reader.mode }
  return { service: reader.service, group: null, reads: `tail from the ${reader.tail}` }
}
