/** The topics of the platform: what they are for, and what the log holds of them now. */

import { type Static, Type } from 'typebox'
import { catalog } from '#topics/catalog.ts'
import type { Reader, Topic } from '#topics/topic.ts'
import { type Action, defineAction, tableOf } from './action.ts'
import { findTopic } from './find-topic.ts'
import { growTopicAction } from './grow.ts'
import type { OperatedPlatform } from './operation.ts'
import { orNull, textField } from './shapes.ts'

const topic = Type.Object(
  {
    topic: Type.String(),
    purpose: Type.String(),
    key: Type.String({ description: 'What its key is, in words.' }),
    schema: Type.String(),
    physical_name: Type.String(),
    epoch: Type.Integer(),
    cleanup: Type.Enum(['delete', 'compact'], { type: 'string' }),
    retention_ms: orNull(
      Type.Integer(),
      'null: the last record of each key is kept, or all until they are delivered.',
    ),
    writers: Type.Array(Type.String()),
    readers: Type.Array(
      Type.Object({
        service: Type.String(),
        group: orNull(Type.String(), 'null: every instance reads all of it.'),
        reads: Type.String(),
      }),
    ),
    records: Type.Integer({ description: 'Offsets that the log spans; compaction leaves holes in them.' }),
    partitions: Type.Array(
      Type.Object({ partition: Type.Integer(), start: Type.Integer(), end: Type.Integer() }),
      { description: 'The first offset that is kept, and the one that the next record gets.' },
    ),
  },
  { title: 'Topic' },
)
type TopicView = Static<typeof topic>

const partitionFacts = Type.Object(
  {
    partitions: Type.Array(
      Type.Object({
        partition: Type.Integer(),
        leader: orNull(Type.String(), 'The broker; null: the log has none, or nobody leads it now.'),
        replicas: Type.Integer(),
        in_sync: Type.Integer({ description: 'Replicas that have all that was acknowledged.' }),
        bytes: orNull(
          Type.Integer(),
          'On the disk of the leader; of the embedded log an estimate. null: not known now.',
        ),
      }),
    ),
    bytes: orNull(Type.Integer(), 'Of all partitions; null where that of one is not known.'),
  },
  { title: 'PartitionFacts' },
)

const problems = ['log_unavailable', 'relational_engine_unavailable'] as const
const named = Type.Object({ topic: textField('A topic of the platform.', 'vectors.commands') })

const listTopicsAction = defineAction({
  name: 'topics list',
  summary: 'All topics of the platform, and what the log holds of them',
  args: Type.Object({}),
  async run({ platform }): Promise<{ topics: TopicView[] }> {
    return { topics: await Promise.all(catalog.map((topic) => viewOf(platform, topic))) }
  },
  http: {
    role: 'viewer',
    problems,
    method: 'GET',
    path: '/log/topics',
    operationId: 'listTopics',
    tag: 'log',
    answer: Type.Object({ topics: Type.Array(topic) }, { title: 'Topics' }),
  },
  cli: [
    {
      example: 'flotilla topics list',
      render: ({ topics }) =>
        tableOf(topics, {
          topic: ({ topic }) => topic,
          records: ({ records }) => records,
          partitions: ({ partitions }) => partitions.length,
          cleanup: ({ cleanup }) => cleanup,
          'read by': ({ readers }) => readers.map(({ group, service }) => group ?? service).join(', '),
        }),
    },
  ],
})

const showTopicAction = defineAction({
  name: 'topics show',
  summary: 'One topic',
  args: named,
  run: ({ platform }, { topic }): Promise<TopicView> => viewOf(platform, findTopic(topic)),
  http: {
    role: 'viewer',
    problems: [...problems, 'not_found'],
    method: 'GET',
    path: '/log/topics/:topic',
    operationId: 'showTopic',
    tag: 'log',
    answer: topic,
  },
})

const partitionFactsAction = defineAction({
  name: 'topics partitions',
  summary: 'Where the partitions of a topic are, and how much room they take',
  args: named,
  async run({ platform }, { topic: name }): Promise<Static<typeof partitionFacts>> {
    const { physicalName } = platform.publisher.locationOf(findTopic(name))
    const facts = await platform.engines.eventLog.partitionFacts(physicalName)
    const known = facts.every(({ bytes }) => bytes !== null)
    return {
      partitions: facts.map(({ inSync, ...fact }) => ({ ...fact, in_sync: inSync })),
      bytes: known ? facts.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0) : null,
    }
  },
  http: {
    role: 'viewer',
    problems: [...problems, 'not_found'],
    method: 'GET',
    path: '/log/topics/:topic/partitions',
    operationId: 'showPartitions',
    tag: 'log',
    answer: partitionFacts,
  },
})

export const topicActions: readonly Action[] = [
  listTopicsAction,
  showTopicAction,
  partitionFactsAction,
  growTopicAction,
]

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
