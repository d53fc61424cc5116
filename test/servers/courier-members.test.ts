/** Several couriers keep their promises on Kafka. */

import { describeCouriers } from '../flow/courier-members.promises.ts'
import { openStack } from '../support/distributed-servers.ts'

describeCouriers('Kafka', async () => {
  const stack = await openStack()
  return { env: { KAFKA_BROKERS: stack.brokers.join(',') }, closed: () => stack.close() }
})
