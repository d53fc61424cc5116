/** Two instances of the audit-writer: one that lost its partition in the middle of a publish spoils no note. */

import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { noTracing } from '#runtime/observe/tracing/tracing.ts'
import { createCodec } from '#runtime/publish/codec.ts'
import { createPublisher } from '#runtime/publish/publisher.ts'
import type { ServiceHost } from '#runtime/start/service.ts'
import type { AuditEvent, VectorUpsert } from '#schemas/types.ts'
import { auditWriter } from '#services/access/audit/writer/service.ts'
import { auditEvent } from '#test/support/audit-event.ts'
import { topicSpec } from '#test/support/topic-spec.ts'
import { auditEvents, catalog, vectorsCommands } from '#topics/catalog.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { createMemoryLog } from '../../../../../support/memory-log.ts'
import { createMemoryRegistry } from '../../../../../support/memory-registry.ts'

const locations = new Map(
  catalog.map(({ name, partitions }) => [name, { physicalName: name, epoch: 1, partitions }]),
)
const ended = auditEvent({ occurred_at: Date.now() })
const begun: AuditEvent = { ...ended, phase: 'begun', outcome: 'unknown', status_code: null, took_ms: null }

async function openWorld() {
  const log = createMemoryLog()
  for (const { name, partitions } of catalog) await log.createTopic(topicSpec(name, { partitions }))
  const positions = Array.from({ length: auditEvents.partitions }, (_, partition) => ({
    partition,
    offset: 0,
  }))
  await log.setPositions('audit-writer', auditEvents.name, positions)
  const codec = createCodec(createMemoryRegistry())
  const publisherOver = (eventLog: EventLog) =>
    createPublisher({ eventLog, codec, locations, producerName: 'test' })

  /**
   * Starts an instance; `before` is awaited before each of its appends under a writer name. Gives its member of the
   * group and what became of the appends.
   */
  async function start(before: () => Promise<void> = async () => {}) {
    const appends: Promise<string>[] = []
    const eventLog: EventLog = {
      ...log,
      async fencedWriter(name) {
        const writer = await log.fencedWriter(name)
        return {
          ...writer,
          append(...args) {
            const appended = before().then(() => writer.append(...args))
            appends.push(
              appended.then(
                () => 'stored',
                (error) => error.code,
              ),
            )
            return appended
          },
        }
      },
    }
    const service = await auditWriter.start({
      engines: { eventLog, localEmbedder: openLocalEmbedder() } as ServiceHost['engines'],
      log: pino({ level: 'silent' }),
      metrics: new Registry(),
      publisher: publisherOver(eventLog),
      codec,
      instanceId: 'i',
      env: { AUDIT_RETENTION_DAYS: '0' },
      locations,
      tracing: noTracing,
      shared: (make) => make(),
    })
    onTestFinished(() => service.close())
    return { member: log.members.at(-1)!, appends }
  }
  return {
    log,
    start,
    add: (event: AuditEvent) =>
      publisherOver(log).publish(auditEvents, [{ key: event.agent_id, value: event }], { partition: 0 }),
    /** The status of each note record, in the order of the log. */
    async statuses(): Promise<string[]> {
      const found: string[] = []
      for (const record of log.records(vectorsCommands.name)) {
        const { value } = await codec.decode(vectorsCommands, record)
        found.push(JSON.parse((value as VectorUpsert).payload).status)
      }
      return found
    },
    committed: () => log.commits.findLast(({ group }) => group === 'audit-writer')?.offset,
  }
}

test('what an instance was publishing when it lost its partition is not put behind what its successor published', async () => {
  const { start, add, statuses, committed } = await openWorld()
  const [sending, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const paused = await start(() => {
    sending.resolve()
    return goOn.promise
  })
  await paused.member.gain([0])
  await add(begun)
  await sending.promise
  // The group takes it for dead; it does not notice.
  paused.member.connected = false
  const next = await start()
  await next.member.gain([0])
  await add(ended)
  await eventually('the successor has committed both', () => committed() === 2)
  goOn.resolve()
  expect(await paused.appends[0]).toBe('fenced')
  const states = await statuses()
  expect(states.indexOf('resolved')).toBe(states.length - 1)
})

test('an instance whose name was taken by one without the partition takes it back, and loses nothing', async () => {
  const { log, start, add, statuses, committed } = await openWorld()
  const owner = await start()
  await owner.member.gain([0])
  await add(begun)
  await eventually('the beginning is written', () => committed() === 1)
  await log.fencedWriter('audit-writer-0')
  await add(ended)
  await eventually('the end is written', () => committed() === 2)
  expect(await statuses()).toEqual(['active', 'resolved'])
})
