/** Topics and positions when several instances start at once on Kafka and Postgres. */

import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { migrate } from '#engines/relational/migrate.ts'
import { openPostgres } from '#engines/relational/postgres.ts'
import { ensureTopics } from '#runtime/publish/topics.ts'
import { migrationFolders } from '#services/migrations.ts'
import { catalog } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl, kafkaBrokers } from '../support/servers.ts'

/** The catalogue under names of this test's own: the broker serves other tests, too. */
function ownCatalog(): Topic[] {
  const prefix = `t${randomUUID().slice(0, 8)}.`
  return catalog.map((topic) => ({
    ...topic,
    name: `${prefix}${topic.name}`,
    readers: topic.readers.map((reader) =>
      'group' in reader ? { ...reader, group: `${prefix}${reader.group}` } : reader,
    ),
  }))
}

async function openInstance() {
  const eventLog: EventLog = await openKafkaLog({
    brokers: await kafkaBrokers(),
    clientId: 'test',
    log: silentLog,
  })
  onTestFinished(() => eventLog.close())
  return eventLog
}

test('instances that start at once on Kafka and Postgres make every topic and position once', async () => {
  const url = await databaseUrl()
  const topics = ownCatalog()
  const warnings: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) })
  const starts = await Promise.all(
    [1, 2, 3].map(async () => {
      const relational = await openPostgres({ url, log: silentLog })
      onTestFinished(() => relational.close())
      const eventLog = await openInstance()
      await migrate(relational, silentLog, migrationFolders)
      return { eventLog, locations: await ensureTopics({ eventLog, relational, log, topics }) }
    }),
  )
  const [{ eventLog, locations }] = starts as [(typeof starts)[0]]
  for (const start of starts) expect([...start.locations]).toEqual([...locations])
  for (const topic of topics) {
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
  // Kafka describes the topics as the catalogue asked for them.
  expect(warnings).toEqual([])
})
