/** The Kafka driver keeps what every event log driver promises. */

import { kafkaLogHarness } from '#test/support/servers-kafka-log.ts'
import { describeEventLog } from './event-log.contract.ts'

describeEventLog('kafka', kafkaLogHarness)
