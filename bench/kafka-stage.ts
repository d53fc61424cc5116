/** A broker for the benches on Kafka: the one in KAFKA_BROKERS, or one of our own for the run; and a filled topic. */

import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { openFolderRegistry } from '#engines/schema-registry/folder.ts'
import { createCodec, schemasDirectory } from '#runtime/publish/codec.ts'
import type { Codec, Publisher } from '#runtime/publish/messages.ts'
import { createPublisher } from '#runtime/publish/publisher.ts'
import { topicSpecOf } from '#runtime/publish/topics.ts'
import type { AuditEvent } from '#schemas/types.ts'
import { auditEvents } from '#topics/catalog.ts'
import { openKafkaCluster } from '../scripts/servers/kafka.ts'

export interface KafkaStage {
  brokers: string[]
  eventLog: EventLog
  codec: Codec
  publisher: Publisher
  /** The topic's name in the broker; the catalogue's audit.events points at it. */
  physicalName: string
  partitions: number
  close(): Promise<void>
}

const partitions = 4

export async function openKafkaStage(): Promise<KafkaStage> {
  const named = process.env.KAFKA_BROKERS?.split(',').filter(Boolean)
  const cluster = named?.length ? null : await openKafkaCluster(1)
  const brokers = cluster?.brokers ?? named!
  const eventLog = await openKafkaLog({ brokers, clientId: 'bench', log: pino({ level: 'silent' }) })
  const registry = await openFolderRegistry({ directory: schemasDirectory })
  const codec = createCodec(registry)
  const physicalName = `bench.audit.${randomBytes(4).toString('hex')}`
  const location = { physicalName, epoch: 1, partitions }
  await eventLog.createTopic(topicSpecOf(auditEvents, location))
  const locations = new Map([[auditEvents.name, location]])
  return {
    brokers,
    eventLog,
    codec,
    publisher: createPublisher({ eventLog, codec, locations, producerName: 'bench' }),
    physicalName,
    partitions,
    async close() {
      await eventLog.deleteTopic(physicalName)
      await eventLog.close()
      await cluster?.close()
    },
  }
}

export function auditEvent(n: number): AuditEvent {
  return {
    event_id: `0193a1b2-0000-7000-8000-${String(n).padStart(12, '0')}`,
    phase: 'ended',
    agent_id: `agent-${n % 64}`,
    operation: 'search',
    collection: 'knowledgebase',
    outcome: 'ok',
    status_code: 200,
    took_ms: 1.25,
    request_id: `request-${n}`,
    count: 1,
    occurred_at: 1_790_000_000_000 + n,
  }
}

/** Publishes `count` audit events, spread over the partitions by agent. */
export async function fillTopic(
  stage: KafkaStage,
  count: number,
  report: (text: string) => void,
): Promise<void> {
  const step = 10_000
  for (let from = 0; from < count; from += step) {
    const messages = Array.from({ length: Math.min(step, count - from) }, (_, i) => {
      const value = auditEvent(from + i)
      return { key: value.agent_id, value }
    })
    await stage.publisher.publish(auditEvents, messages, { timeoutMs: 60_000 })
    if ((from / step) % 5 === 4) report(`  filled ${from + messages.length} of ${count} records`)
  }
}
