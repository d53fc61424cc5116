/** The Kafka driver keeps what every event log driver promises. */

import { pino } from 'pino'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { describeEventLog } from './event-log.contract.ts'

describeEventLog('kafka', async () => {
  const brokers = await kafkaBrokers()
  const log = pino({ level: process.env.LOG_LEVEL ?? 'silent' })
  return { open: () => openKafkaLog({ brokers, clientId: 'contract', log }) }
})
