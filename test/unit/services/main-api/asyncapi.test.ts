/** The AsyncAPI document names the public topics alone, where they live now, and its page runs and loads nothing. */

import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { loadSchemas } from '#lib/schema-files.ts'
import { parseAvro, schemasDirectory } from '#runtime/publish/codec.ts'
import { asyncApiOf } from '#services/main-api/asyncapi/document.ts'
import { asyncApiPage, pageHeaders } from '#services/main-api/asyncapi/page.ts'
import { catalog } from '#topics/catalog.ts'
import { fence } from '#topics/promises.ts'

const document = asyncApiOf({
  topics: catalog,
  schemas: loadSchemas(schemasDirectory),
  locationOf: (topic) =>
    topic.name === 'hub.records'
      ? { physicalName: 'hub.records.e3', epoch: 3, partitions: 24 }
      : { physicalName: topic.name, epoch: 1, partitions: topic.partitions },
})

test('a channel for each public topic, under the name and epoch that it has now', () => {
  expect(Object.keys(document.channels)).toEqual(
    catalog.filter((topic) => topic.public).map(({ name }) => name),
  )
  expect(document.channels['hub.records']).toMatchObject({
    address: 'hub.records.e3',
    'x-epoch': 3,
    'x-subject': 'hub.records-value',
    bindings: { kafka: { topic: 'hub.records.e3', partitions: 24 } },
  })
  expect(document.channels['audit.events']!.bindings.kafka.topicConfiguration).toEqual({
    'cleanup.policy': ['delete'],
    'retention.ms': 90 * 86_400_000,
  })
})

test('a null value is a message of its own, where one is written', () => {
  const messagesOf = (topic: string) => Object.keys(document.channels[topic]!.messages)
  expect(messagesOf('vectors.commands')).toEqual(['VectorUpsert', 'VectorUpsertDeleted'])
  expect(messagesOf('hub.records')).toEqual(['HubRecord'])
  expect(document.components.messages.VectorUpsertDeleted!.payload).toEqual({ type: 'null' })
})

test('every payload is the published Avro schema, and every reference leads somewhere', () => {
  for (const { payload } of Object.values(document.components.messages)) {
    if ('schema' in payload) expect(() => parseAvro(JSON.stringify(payload.schema))).not.toThrow()
  }
  for (const [, reference] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
    const found = reference!
      .split('/')
      .reduce<unknown>((part, name) => (part as Record<string, unknown>)?.[name], document)
    expect(found, reference).toBeDefined()
  }
})

test('the rules are in it, the fence among them', () => {
  expect(document.info.description).toContain(fence.header)
})

test('the page has every topic and field, and no script, and its policy allows its own style alone', () => {
  const page = asyncApiPage(document, 'asyncapi.json')
  for (const channel of Object.values(document.channels)) expect(page).toContain(`id="${channel.title}"`)
  expect(page).toContain('<code>hub.records.e3</code>')
  expect(page).toContain('<code>thread_id</code>')
  expect(page).not.toMatch(/<script|<img|<link|\son[a-z]+=|https?:/)
  const style = /<style>(.*?)<\/style>/s.exec(page)![1]!
  const hash = createHash('sha256').update(style).digest('base64')
  expect(pageHeaders['content-security-policy']).toContain(`style-src 'sha256-${hash}'`)
  expect(pageHeaders['content-security-policy']).not.toContain('unsafe')
})
