/** The catalogue of topics agrees with the services and with docs/topics.md. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { fenceHeader, fenceKey } from '#engines/event-log/kafka/partition-writer.ts'
import { services } from '#services/index.ts'
import { catalog, parsePointKey, topicByName, vectorsCommands } from '#topics/catalog.ts'
import { deadLettersOf, epochOfLetter } from '#topics/dead-letters.ts'
import { fence } from '#topics/promises.ts'
import { topicsPage } from '../../../scripts/docs-from-catalog.ts'

const serviceNames = services.map((service) => service.name)

test('every writer and reader of the catalogue is a service', () => {
  for (const topic of catalog) {
    for (const name of [...topic.writers, ...topic.readers.map((reader) => reader.service)]) {
      expect(serviceNames, `${name}, named by ${topic.name}`).toContain(name)
    }
  }
})

test('every service writes or reads some topic, but the agents, which reach the platform by HTTP', () => {
  const named = new Set(
    catalog.flatMap((topic) => [...topic.writers, ...topic.readers.map((reader) => reader.service)]),
  )
  expect(serviceNames.filter((name) => !named.has(name))).toEqual(['reference-nodes'])
})

test('the page in docs is what the catalogue says', () => {
  expect(readFileSync(new URL('../../../docs/topics.md', import.meta.url), 'utf8')).toBe(topicsPage(catalog))
})

test('topics have unique names, and groups read one topic each', () => {
  const names = catalog.map((topic) => topic.name)
  expect(new Set(names).size).toBe(names.length)
  const groups = catalog.flatMap((topic) =>
    topic.readers.flatMap((reader) => ('group' in reader ? [reader.group] : [])),
  )
  expect(new Set(groups).size).toBe(groups.length)
})

test('only compacted topics have no retention of their own', () => {
  for (const topic of catalog) {
    if (topic.cleanup === 'compact') expect(topic.retentionMs, topic.name).toBeNull()
  }
})

test('a point’s key is taken apart as it was put together, slashes in the id included', () => {
  const key = vectorsCommands.key({ collection: 'posts', id: 'a/b/c' })
  expect(parsePointKey(key)).toEqual({ collection: 'posts', id: 'a/b/c' })
  expect(parsePointKey('/x')).toBeNull()
  expect(parsePointKey('x')).toBeNull()
})

test('dead letters are found by their topic and keyed by group and origin', () => {
  const topic = topicByName('vectors.commands.dead-letters')
  expect(topic).toMatchObject({ cleanup: 'compact', schema: 'dead-letter' })
  const made = deadLettersOf(topicByName('vectors.commands')!)
  const origin = { group: 'vector-writer', partition: 3, offset: 9 }
  expect(made.key({ ...origin, epoch: 1 })).toBe('vector-writer/3/9')
  expect(made.key({ ...origin, epoch: 2 })).toBe('vector-writer/3/9/2')
  expect(['vector-writer/3/9', 'vector-writer/3/9/2'].map(epochOfLetter)).toEqual([1, 2])
})

test('seven topics are public, and the fences that their readers skip are those of the driver', () => {
  expect(catalog.filter((topic) => topic.public).map(({ name }) => name)).toEqual([
    'vectors.commands',
    'audit.events',
    'vectors.collections',
    'fleet.events',
    'hub.records',
    'webhooks.attempts',
    'runs.events',
  ])
  expect(fence).toEqual({ header: fenceHeader, key: fenceKey })
})
