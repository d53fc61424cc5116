/** The Kafka driver for the event log's suite, with a way to make Kafka compact a topic at once. */

import { pino } from 'pino'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import type { EventLogHarness } from '../contract/event-log/world.ts'
import { kafkaBrokers } from './servers.ts'

/**
 * Kafka compacts all but the segment that is written to, and begins a new segment with the first record that comes
 * `segment.ms` after the segment's first. So appends to topics with very short segments are written with a pause
 * before their last record: the newest record of such a topic is always alone in its segment.
 */
const shortSegmentsMs = 1_000

export async function kafkaLogHarness(): Promise<EventLogHarness> {
  const brokers = await kafkaBrokers()
  const log = pino({ level: process.env.LOG_LEVEL ?? 'silent' })
  const rolling = new Set<string>()
  const forced = new Set<string>()
  const open = async () => {
    const kafka = await openKafkaLog({ brokers, clientId: 'contract', log })
    return withRolls(kafka, rolling)
  }
  return {
    open,
    // The cleaner looks for work every half second by itself. Asked again, it needs something new to clean.
    async forceCompaction(topic) {
      if (!forced.has(topic)) {
        forced.add(topic)
        return
      }
      const kafka = await open()
      await kafka.append(topic, 0, [{ key: Buffer.from('end'), value: Buffer.from('again') }])
      await kafka.close()
      await sleep(1_000)
    },
  }
}

function withRolls(log: EventLog, rolling: Set<string>): EventLog {
  return {
    ...log,
    async createTopic(spec) {
      if (spec.cleanup === 'compact' && spec.segmentMs <= shortSegmentsMs) rolling.add(spec.name)
      return log.createTopic(spec)
    },
    async append(topic, partition, records, options) {
      if (!rolling.has(topic)) return log.append(topic, partition, records, options)
      const head = records.slice(0, -1)
      const first = head.length > 0 ? await log.append(topic, partition, head, options) : null
      await sleep(shortSegmentsMs + 100)
      const last = await log.append(topic, partition, records.slice(-1), options)
      return first ?? last
    },
  }
}
