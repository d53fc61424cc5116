/** Topics, reader groups and their first positions are made once, and checked at every start. */

import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { ensureTopics, missingTopics, topicSpecOf } from '#runtime/publish/topics.ts'
import { migrationFolders } from '#services/migrations.ts'
import { auditEvents, catalog, vectorsCommands } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import { openEmptyRelational, silentLog } from '../../../support/relational.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openEmptyRelational()
  await migrate(relational, silentLog, migrationFolders)
})
afterAll(() => relational.close())
beforeEach(async () => {
  await relational.query('delete from platform.topics; delete from platform.readers')
})

async function openLog(): Promise<EventLog> {
  const eventLog = await openEmbeddedLog({ directory: temporaryFolder() })
  onTestFinished(() => eventLog.close())
  return eventLog
}

const commands = vectorsCommands
const audit = auditEvents
const ensure = (eventLog: EventLog, topics: readonly Topic[] = catalog) =>
  ensureTopics({ eventLog, relational, log: silentLog, topics })

test('every topic of the catalogue is made, and each reader begins at the beginning', async () => {
  const eventLog = await openLog()
  expect(await missingTopics(relational)).toEqual(catalog.map((topic) => topic.name))
  const locations = await ensure(eventLog)
  expect(await missingTopics(relational)).toEqual([])
  expect([...locations.keys()]).toEqual(catalog.map((topic) => topic.name))
  expect(locations.get('vectors.commands')).toEqual({
    physicalName: 'vectors.commands',
    epoch: 1,
    partitions: 12,
  })
  for (const topic of catalog) {
    expect(await eventLog.describeTopic(topic.name)).toMatchObject({
      partitions: topic.partitions,
      cleanup: topic.cleanup,
    })
    for (const reader of topic.readers) {
      if (!('group' in reader)) continue
      const { committed } = await eventLog.groupState(reader.group, topic.name)
      expect(committed.map(({ offset }) => offset)).toEqual(new Array(topic.partitions).fill(0))
    }
  }
})

test('a second start changes nothing: positions that moved on stay where they are', async () => {
  const eventLog = await openLog()
  await ensure(eventLog)
  await eventLog.append('vectors.commands', 3, [{ key: Buffer.from('k'), value: null }])
  await eventLog.setPositions('vector-writer', 'vectors.commands', [{ partition: 3, offset: 1 }])
  await ensure(eventLog)
  const { committed } = await eventLog.groupState('vector-writer', 'vectors.commands')
  expect(committed.find(({ partition }) => partition === 3)!.offset).toBe(1)
})

test('a position that is missing later is not written again', async () => {
  const eventLog = await openLog()
  await ensure(eventLog, [commands])
  await eventLog.deleteGroup('vector-writer')
  await ensure(eventLog, [commands])
  expect((await eventLog.groupState('vector-writer', 'vectors.commands')).committed).toEqual([])
})

test('a reader that is new gets its positions at the start of what the log still holds', async () => {
  const eventLog = await openLog()
  await ensure(eventLog, [audit])
  for (let n = 0; n < 5; n++)
    await eventLog.append('audit.events', 2, [{ key: Buffer.from('k'), value: null }])
  await eventLog.deleteRecords('audit.events', 2, 3)
  const grown = {
    ...audit,
    readers: [...audit.readers, { service: 's', group: 'new-group', mode: 'batch' as const }],
  }
  await ensure(eventLog, [grown])
  const { committed } = await eventLog.groupState('new-group', 'audit.events')
  expect(committed).toHaveLength(12)
  expect(committed.find(({ partition }) => partition === 2)!.offset).toBe(3)
})

test('a start that ended before its rows were written is finished by the next', async () => {
  const eventLog = await openLog()
  await eventLog.createTopic(topicSpecOf(commands, { physicalName: 'vectors.commands', partitions: 12 }))
  await eventLog.setPositions('vector-writer', 'vectors.commands', [{ partition: 0, offset: 0 }])
  await ensure(eventLog, [commands])
  expect((await eventLog.groupState('vector-writer', 'vectors.commands')).committed).toHaveLength(12)
})

test('many instances that start at once agree', async () => {
  const eventLog = await openLog()
  const all = await Promise.all(Array.from({ length: 6 }, () => ensure(eventLog)))
  for (const locations of all) expect([...locations]).toEqual([...all[0]!])
})

test.each<[string, Partial<Topic>, RegExp]>([
  [
    'more partitions than the log has',
    { partitions: 24 },
    /12 partitions.*24.*flotilla topics grow vectors\.commands/,
  ],
  [
    'another cleanup policy',
    { cleanup: 'delete' },
    /cleanup policy is compact and must be delete.*cleanup\.policy=delete/,
  ],
])('a topic that differs stops the start: %s', async (_, change, message) => {
  const eventLog = await openLog()
  await ensure(eventLog, [commands])
  await expect(ensure(eventLog, [{ ...commands, ...change }])).rejects.toMatchObject({
    code: 'topic_mismatch',
    message: expect.stringMatching(message),
  })
})

test('partitions that somebody else added stop the start', async () => {
  const eventLog = await openLog()
  await ensure(eventLog, [commands])
  await eventLog.addPartitions('vectors.commands', 13)
  await expect(ensure(eventLog, [commands])).rejects.toMatchObject({
    code: 'topic_mismatch',
    message: expect.stringMatching(/vectors\.commands: it has 13 partitions and must have 12/),
  })
})

test('a broker that does not know a new topic yet is asked again', async () => {
  const eventLog = await openLog()
  let asked = 0
  const late: EventLog = {
    ...eventLog,
    driver: 'kafka',
    describeTopic: async (name) => (asked++ < 2 ? null : eventLog.describeTopic(name)),
  }
  expect((await ensure(late, [commands])).get('vectors.commands')?.partitions).toBe(12)
  expect(asked).toBe(3)
})

test('a topic that is gone from the log stops the start and is not created again', async () => {
  const eventLog = await openLog()
  await ensure(eventLog, [commands])
  await eventLog.deleteTopic('vectors.commands')
  await expect(ensure(eventLog, [commands])).rejects.toMatchObject({
    code: 'topic_mismatch',
    message: expect.stringContaining('gone from the log'),
  })
})

test('a topic that the platform has grown keeps its location and count', async () => {
  const eventLog = await openLog()
  await ensure(eventLog, [commands])
  await eventLog.createTopic(topicSpecOf(commands, { physicalName: 'vectors.commands.2', partitions: 24 }))
  await relational.query(
    `update platform.topics set physical_name = 'vectors.commands.2', epoch = 2, partitions = 24`,
  )
  expect((await ensure(eventLog, [commands])).get('vectors.commands')).toEqual({
    physicalName: 'vectors.commands.2',
    epoch: 2,
    partitions: 24,
  })
})

test('with the log away it waits, and goes on when it is back', async () => {
  const eventLog = await openLog()
  let faults = 3
  const flaky: EventLog = {
    ...eventLog,
    async createTopic(spec) {
      if (faults-- > 0) throw new AppError('log_unavailable', 'The event log does not answer.')
      return eventLog.createTopic(spec)
    },
  }
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
  const locations = await ensureTopics({ eventLog: flaky, relational, log, topics: [commands] })
  expect(locations.size).toBe(1)
  // A line at the first try and at each doubling of the tries.
  expect(lines.filter((line) => line.includes('start.waiting'))).toHaveLength(2)
  expect(lines[0]).toContain('KAFKA_BROKERS')
})

test('a signal ends the waiting with the last fault', async () => {
  const eventLog = await openLog()
  const away: EventLog = {
    ...eventLog,
    async createTopic() {
      throw new AppError('log_unavailable', 'The event log does not answer.')
    },
  }
  const stop = new AbortController()
  const waiting = ensureTopics({
    eventLog: away,
    relational,
    log: silentLog,
    topics: [commands],
    signal: stop.signal,
  })
  setTimeout(() => stop.abort(), 50)
  await expect(waiting).rejects.toMatchObject({ code: 'log_unavailable' })
})

test('compacted topics roll small segments and keep tombstones for 30 days', () => {
  expect(topicSpecOf(commands, { physicalName: 'p', partitions: 12 })).toMatchObject({
    segmentBytes: 64 * 1024 * 1024,
    segmentMs: 600_000,
    tombstoneRetentionMs: 30 * 86_400_000,
    retentionMs: null,
  })
  expect(topicSpecOf(commands, { physicalName: 'p', partitions: 12 }).recordBytesMax).toBeGreaterThanOrEqual(
    1.2 * 1024 * 1024,
  )
})
