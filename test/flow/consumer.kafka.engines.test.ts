/** The consumer runtime keeps its promises on Kafka. */

import { pino } from 'pino'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { describeConsumer } from './consumer.promises.ts'

describeConsumer('kafka', async () => {
  const log = pino({ level: process.env.LOG_LEVEL ?? 'silent' })
  return openKafkaLog({ brokers: await kafkaBrokers(), clientId: 'consumer', log })
})
