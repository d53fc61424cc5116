/** The public topics as an AsyncAPI 3 document: made from the catalogue, the Avro schemas and where the topics live now. */

import type { TopicLocation } from '#runtime/publish/messages.ts'
import { topicSpecOf } from '#runtime/publish/topics.ts'
import {
  commonHeaders,
  type HeaderName,
  readingRules,
  recordHeaders,
  type TopicPromise,
} from '#topics/promises.ts'
import type { Topic } from '#topics/topic.ts'

const kafkaBinding = { bindingVersion: '0.5.0' } as const
const avroFormat = 'application/vnd.apache.avro+json;version=1.9.0'
const server = 'log'

export interface AvroRecord {
  name: string
  doc?: string
  fields: { name: string; type: unknown; doc?: string; default?: unknown }[]
}

export type Channel = ReturnType<typeof channelOf>

export interface Message {
  name: string
  title: string
  summary: string
  contentType?: string
  headers: { type: 'object'; properties: Record<string, object>; required: readonly string[] }
  payload: { schemaFormat: string; schema: AvroRecord } | { type: 'null' }
  bindings: { kafka: Record<string, unknown> }
}

export type AsyncApi = ReturnType<typeof asyncApiOf>

interface AsyncApiParts {
  topics: readonly Topic[]
  /** Avro schemas by name, as JSON. */
  schemas: ReadonlyMap<string, string>
  locationOf(topic: Topic): TopicLocation
}

export type PublicTopic = Topic & { public: TopicPromise }

/** Describes the public topics among `topics`. */
export function asyncApiOf({ topics, schemas, locationOf }: AsyncApiParts) {
  const document = {
    asyncapi: '3.1.0',
    info: {
      title: 'Flotilla topics',
      version: '1',
      description: rulesText(),
      license: { name: 'Apache License 2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    servers: { [server]: serverOf() },
    channels: {} as Record<string, Channel>,
    operations: {} as Record<string, object>,
    components: { messages: {} as Record<string, Message> },
  }
  for (const topic of topics.filter(isPublic)) {
    const messages = messagesOf(topic, JSON.parse(schemas.get(topic.schema)!) as AvroRecord)
    Object.assign(document.components.messages, messages)
    document.channels[topic.name] = channelOf(topic, locationOf(topic), Object.keys(messages))
    document.operations[`send.${topic.name}`] = {
      action: 'send',
      channel: { $ref: `#/channels/${topic.name}` },
      summary: topic.purpose,
      messages: Object.keys(messages).map((name) => ({
        $ref: `#/channels/${topic.name}/messages/${name}`,
      })),
    }
  }
  return document
}

function isPublic(topic: Topic): topic is PublicTopic {
  return topic.public !== undefined
}

/** The facts of a topic, by what they are about, as Markdown. */
function factsOf({ public: promise }: PublicTopic): [about: string, text: string][] {
  return [
    ['Key', `${promise.key}.`],
    ['Order', promise.order],
    ['Repeats', promise.repeats],
    ['Null values', promise.tombstones ?? 'none.'],
  ]
}

function rulesText(): string {
  const sections = readingRules.map(
    ({ title, rules }) => `## ${title}\n\n${rules.map((rule) => `- ${rule}`).join('\n')}`,
  )
  return [
    'What other systems can rely on. The platform writes these topics; it does not read what others write there.',
  ]
    .concat(sections)
    .join('\n\n')
}

/** Addresses of brokers are the operator's to give. */
function serverOf(): object {
  return {
    host: '{brokers}',
    protocol: 'kafka',
    description:
      'The brokers of the installation (`KAFKA_BROKERS`). Ask its operator, also for user and password.',
    variables: { brokers: { description: 'host:port of some brokers' } },
  }
}

function channelOf(topic: PublicTopic, location: TopicLocation, messages: string[]) {
  const { physicalName, partitions, epoch } = location
  const spec = topicSpecOf(topic, location)
  return {
    address: physicalName,
    title: topic.name,
    summary: topic.purpose,
    description: factsOf(topic)
      .map(([about, text]) => `**${about}**: ${text}`)
      .join('\n\n'),
    servers: [{ $ref: `#/servers/${server}` }],
    messages: Object.fromEntries(messages.map((name) => [name, { $ref: `#/components/messages/${name}` }])),
    bindings: {
      kafka: {
        topic: physicalName,
        partitions,
        topicConfiguration: {
          'cleanup.policy': [spec.cleanup],
          'retention.ms': spec.retentionMs ?? -1,
          ...(spec.cleanup === 'compact' ? { 'delete.retention.ms': spec.tombstoneRetentionMs } : {}),
        },
        ...kafkaBinding,
      },
    },
    'x-epoch': epoch,
    'x-subject': `${topic.name}-value`,
  }
}

/** By name: the record with a value and, where null values come, the one without. */
function messagesOf(topic: PublicTopic, schema: AvroRecord): Record<string, Message> {
  const common = {
    headers: headersOf(topic.public),
    bindings: { kafka: { key: keyOf(topic.public), ...kafkaBinding } },
  }
  const record: Message = {
    name: schema.name,
    title: schema.name,
    summary: schema.doc ?? topic.purpose,
    contentType: 'application/avro',
    ...common,
    payload: { schemaFormat: avroFormat, schema },
    bindings: {
      kafka: { ...common.bindings.kafka, schemaIdLocation: 'payload', schemaIdPayloadEncoding: 'confluent' },
    },
  }
  if (topic.public.tombstones === null) return { [schema.name]: record }
  const name = `${schema.name}Deleted`
  const summary = `A null value: ${topic.public.tombstones}`
  const tombstone: Message = { name, title: name, summary, ...common, payload: { type: 'null' } }
  return { [schema.name]: record, [name]: tombstone }
}

function keyOf({ key, keyExample }: TopicPromise): object {
  return { type: 'string', description: key, examples: [keyExample] }
}

function headersOf({ headers }: TopicPromise): Message['headers'] {
  const names = [...commonHeaders, ...(Object.keys(headers) as HeaderName[])]
  return {
    type: 'object',
    properties: Object.fromEntries(
      names.map((name) => [name, { type: 'string', description: describeHeader(name, headers[name]) }]),
    ),
    required: commonHeaders,
  }
}

function describeHeader(name: HeaderName, where: string | undefined): string {
  const says = recordHeaders[name]
  return where === undefined ? says : `${says} (${where})`
}
